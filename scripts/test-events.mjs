// A reporter for node:test that writes what scripts/test.mjs needs as JSON lines: the end of each test, and which file
// it is of. The runner's own reporters are for people.

/** @param {AsyncIterable<{type: string, data: any}>} source */
export default async function* report(source) {
  for await (const { type, data } of source) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details?.type === 'suite') continue;
    yield `${JSON.stringify({
      ok: type === 'test:pass',
      name: data.name,
      file: data.file,
      skip: data.skip,
      todo: data.todo,
    })}\n`;
  }
}
