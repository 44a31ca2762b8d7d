/** Templates of a task: what is rendered when, what follows a change, and what survives the agent. */
import assert from 'node:assert/strict';
import { lstatSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { AgentError } from '../../../../src/base/errors.js';
import type { Template } from '../../../../src/jobspec/types.js';
import { templateHook } from '../../../../src/taskrunner/hooks/template.js';
import { FakeClock } from '../../../helpers/fake-clock.js';
import { HookWorld } from '../../../helpers/hook-world.js';
import { until } from '../../../helpers/until.js';

function aTemplate(over: Partial<Template>): Template {
  return {
    data: '',
    destination: 'local/out',
    perms: '0644',
    changeMode: 'restart',
    splayMs: 0,
    env: false,
    errorOnMissingKey: false,
    once: false,
    leftDelimiter: '{{',
    rightDelimiter: '}}',
    ...over,
  };
}

/** A task with templates on a clock that stands still. */
class Bench implements Disposable {
  readonly world = new HookWorld();
  readonly clock = new FakeClock();
  readonly hook;
  readonly #templates: readonly Template[];
  #abort = new AbortController();
  #watching: Promise<void> | undefined;
  /** The watch has found nothing (more) to look at. */
  #isOver = false;

  constructor(templates: readonly Partial<Template>[], hostPaths: readonly string[] = []) {
    this.#templates = templates.map(aTemplate);
    this.hook = templateHook({ hostPaths });
  }

  context(signal = new AbortController().signal) {
    return this.world.context(
      { templates: this.#templates, meta: { colour: 'red' } },
      { clock: this.clock, signal, data: this.world.data },
    );
  }

  async start(): Promise<Readonly<Record<string, string>>> {
    const answer = await this.hook.prestart?.(this.context());
    this.world.data = answer?.data ?? {};
    return answer?.env ?? {};
  }

  watch(): void {
    this.#abort = new AbortController();
    this.#isOver = false;
    this.#watching = this.hook.watch?.(this.context(this.#abort.signal)).then(() => {
      this.#isOver = true;
    });
  }

  /** The agent or the task goes. */
  async end(): Promise<void> {
    this.#abort.abort();
    await this.clock.settle();
    await this.#watching;
  }

  /** Time goes on until the fact holds: the files are real, so their turns of the event loop take as long as they take. */
  async until(what: string, fact: () => boolean): Promise<void> {
    await until(what, async () => {
      await this.clock.advance(500);
      return fact();
    });
  }

  /** Some more looks at the files, each seen to its end: then it waits for the next one, or there is none. */
  async looks(): Promise<void> {
    const isBetweenLooks = (): boolean => this.#isOver || this.clock.pendingMs().length > 0;
    for (let times = 0; times < 6 && !this.#isOver; times++) {
      await until('it waits for its next look', isBetweenLooks);
      await this.clock.advance(this.clock.pendingMs()[0] ?? 0);
      await until('it has looked', isBetweenLooks);
    }
  }

  /** A change waits for its turn. */
  splays(): boolean {
    return this.clock.pendingMs().some((ms) => ms > 20_000);
  }

  path(name: string): string {
    return join(this.world.dirs.localDir, name);
  }

  out(name = 'out'): string {
    return readFileSync(this.path(name), 'utf8');
  }

  [Symbol.dispose](): void {
    this.#abort.abort();
    this.world[Symbol.dispose]();
  }
}

describe('before a start', () => {
  it('templates are rendered in order, with their mode, into places of the task', async () => {
    using bench = new Bench([
      { data: '{{ env "NOMAD_META_colour" }} {{ meta "colour" }} {{ attr "cpu.arch" }}', perms: '600' },
      { data: '{{ file "local/out" | toUpper }}', destination: '${NOMAD_TASK_DIR}/sub/two' },
      { data: 'shared', destination: 'alloc/data/three' },
    ]);
    await bench.start();
    assert.equal(bench.out(), 'red red amd64');
    assert.equal(statSync(bench.path('out')).mode & 0o777, 0o600);
    assert.equal(bench.out('sub/two'), 'RED RED AMD64');
    assert.equal(readFileSync(join(bench.world.dirs.allocDir, 'data/three'), 'utf8'), 'shared');
  });

  it('a source file with other delimiters; env lines join the environment', async () => {
    using bench = new Bench([]);
    writeFileSync(
      bench.path('tpl'),
      'A=[[ env "NOMAD_TASK_NAME" ]]\n# no\nexport B="x\\ty" # c\nC=\'$x\'\n\nD=',
    );
    const template: Template = {
      ...aTemplate({}),
      data: '',
      source: 'local/tpl',
      env: true,
      leftDelimiter: '[[',
      rightDelimiter: ']]',
    };
    const answer = await bench.hook.prestart?.(bench.world.context({ templates: [template] }));
    assert.deepEqual(answer?.env, { A: 'main', B: 'x\ty', C: '$x', D: '' });
  });

  it('FiltersEnvVars: a template sees the environment of its task, and nothing else of the agent', async () => {
    process.env['HOLDFAST_TEST_SECRET'] = 'secret';
    using bench = new Bench([
      { data: '{{ env "HOLDFAST_TEST_SECRET" }}|{{ env "LANG" }}|{{ env "NOMAD_TASK_NAME" }}' },
    ]);
    bench.world.agentEnv = { HOLDFAST_TEST_SECRET: 'secret', LANG: 'C' };
    await bench.start();
    assert.equal(bench.out(), '|C|main');
    delete process.env['HOLDFAST_TEST_SECRET'];
  });

  it('Env_Multi: of two env templates that set the same, the later one wins', async () => {
    using bench = new Bench([
      { data: 'A=1\nB=1', env: true, destination: 'local/one' },
      { data: 'B=2\nC=2', env: true, destination: 'local/two' },
    ]);
    assert.deepEqual(await bench.start(), { A: '1', B: '2', C: '2' });
  });

  it('a fault names the template, the line and the column', async () => {
    using bench = new Bench([{ data: 'a\n  {{ parseJSON "{" }}' }]);
    await assert.rejects(bench.start(), /template local\/out: line 2, column 6: `parseJSON`: /);
    using env = new Bench([{ data: 'A=1\nno line', env: true }]);
    await assert.rejects(env.start(), /template local\/out: line 2 of what came out is not KEY=value/);
  });

  it('waits for a file that is missing, and says so once', async () => {
    using bench = new Bench([{ data: '{{ file "local/in" }}' }]);
    const started = bench.start();
    await bench.until('it waits', () => bench.world.waits.length > 0);
    assert.deepEqual(bench.world.waits, ['file local/in for template local/out']);
    writeFileSync(bench.path('in'), 'here');
    let done = false;
    void started.then(() => (done = true));
    await bench.until('it is rendered', () => done);
    assert.equal(bench.out(), 'here');
    assert.equal(bench.world.events.length, 1);
  });

  it('reads and writes nothing outside, whatever links say', async () => {
    using bench = new Bench([{ data: '{{ file "local/link" }}' }]);
    symlinkSync('/etc/hostname', bench.path('link'));
    await assert.rejects(bench.start(), /link is a link/);
    for (const path of ['/etc/hostname', '../../x', 'local/../../x']) {
      using other = new Bench([{ data: `{{ file "${path}" }}`, destination: 'local/x' }]);
      const work = other.hook.prestart?.(other.context(AbortSignal.abort(new Error('gave up'))));
      await assert.rejects(async () => work, /leads out|gave up/);
    }
    using way = new Bench([{ data: 'x', destination: 'local/dir/x' }]);
    const outside = join(way.world.dir, 'outside');
    mkdirSync(outside);
    symlinkSync(outside, way.path('dir'));
    await assert.rejects(way.start(), /dir is a link/);
    using last = new Bench([{ data: 'x' }]);
    writeFileSync(join(last.world.dir, 'victim'), 'untouched');
    symlinkSync(join(last.world.dir, 'victim'), last.path('out'));
    await last.start();
    assert.ok(lstatSync(last.path('out')).isFile());
    assert.equal(readFileSync(join(last.world.dir, 'victim'), 'utf8'), 'untouched');
  });

  it('reads of the host what the agent allows, and nothing that it links to', async () => {
    using world = new HookWorld();
    writeFileSync(join(world.dir, 'allowed'), 'yes');
    symlinkSync('/etc/hostname', join(world.dir, 'away'));
    using bench = new Bench([{ data: `{{ file "${world.dir}/allowed" }}` }], [world.dir]);
    await bench.start();
    assert.equal(bench.out(), 'yes');
    using other = new Bench([{ data: `{{ file "${world.dir}/away" }}` }], [world.dir]);
    await assert.rejects(other.start(), /no template_host_paths allows/);
  });
});

describe('while the task runs', () => {
  const READS = '{{ file "local/in" }}';

  async function running(templates: readonly Partial<Template>[]): Promise<Bench> {
    const bench = new Bench(templates);
    writeFileSync(bench.path('in'), 'one');
    await bench.start();
    bench.watch();
    return bench;
  }

  it('restart: once for a change, after it is written', async () => {
    using bench = await running([{ data: READS }]);
    await bench.looks();
    assert.deepEqual(bench.world.asked, []);
    writeFileSync(bench.path('in'), 'two');
    await bench.until('it is restarted', () => bench.world.asked.length > 0);
    assert.equal(bench.out(), 'two');
    await bench.looks();
    assert.deepEqual(bench.world.asked, ['restart: Template with change_mode restart re-rendered']);
    assert.deepEqual(bench.world.events, [
      { type: 'Template', message: 'Rendered anew: local/out', fails: false },
    ]);
  });

  it('signals are sent once each; a restart goes before them; noop only writes', async () => {
    const signalled = { data: READS, changeMode: 'signal', changeSignal: 'SIGHUP' } as const;
    using bench = await running([
      signalled,
      { ...signalled, destination: 'local/two' },
      { data: READS, changeMode: 'noop', destination: 'local/three' },
    ]);
    writeFileSync(bench.path('in'), 'two');
    await bench.until('signalled', () => bench.world.asked.length > 0);
    assert.equal(bench.out('three'), 'two');
    await bench.looks();
    assert.deepEqual(bench.world.asked, ['SIGHUP: Template re-rendered']);

    using mixed = await running([signalled, { data: READS, destination: 'local/two' }]);
    writeFileSync(mixed.path('in'), 'two');
    await mixed.until('restarted', () => mixed.world.asked.length > 0);
    await mixed.looks();
    assert.match(mixed.world.asked.join(), /^restart: [^,]*$/);
  });

  for (const error of [
    new AgentError('not_running', 'main: nothing runs that could be signalled'),
    new AgentError('executor_unreachable', 'no answer from the executor'),
  ])
    it(`Signal_Error: a signal that cannot be sent (${error.code}) is told, and the task runs on`, async () => {
      using bench = new Bench([{ data: READS, changeMode: 'signal', changeSignal: 'SIGHUP' }]);
      bench.world.signalError = error;
      writeFileSync(bench.path('in'), 'one');
      await bench.start();
      bench.watch();
      writeFileSync(bench.path('in'), 'two');
      await bench.until('told', () => bench.world.events.at(-1)?.type === 'Task hook message');
      assert.deepEqual(bench.world.events.at(-1), {
        type: 'Task hook message',
        hook: 'template',
        message: error.message,
      });
      assert.deepEqual(bench.world.asked, []);
    });

  it('the splay is waited for, at random', async () => {
    using bench = await running([{ data: READS, splayMs: 60_000 }]);
    bench.clock.nextRoll = 0.5;
    writeFileSync(bench.path('in'), 'two');
    await bench.until('written', () => bench.out() === 'two' && bench.splays());
    assert.deepEqual(bench.world.asked, []);
    await bench.clock.advance(30_000);
    await bench.until('restarted', () => bench.world.asked.length > 0);
  });

  it('once, and what reads no file, is not looked at', async () => {
    using bench = await running([
      { data: READS, once: true },
      { data: 'fixed {{ timestamp }}', destination: 'local/two' },
    ]);
    writeFileSync(bench.path('in'), 'two');
    await bench.looks();
    assert.deepEqual(bench.world.asked, []);
    assert.deepEqual(bench.clock.pendingMs(), [], 'nothing is waited for');
  });

  it('the next agent does nothing when nothing changed, and what is due when something did', async () => {
    using bench = await running([{ data: `${READS}{{ timestamp }}` }]);
    await bench.end();
    bench.clock.stepWall(3_600_000);
    bench.watch();
    await bench.looks();
    assert.deepEqual(bench.world.asked, []);
    await bench.end();
    writeFileSync(bench.path('in'), 'meanwhile');
    bench.watch();
    await bench.until('restarted', () => bench.world.asked.length > 0);
    assert.match(bench.out(), /^meanwhile/);
  });

  it('an agent that dies between the file and the restart leaves the restart to the next', async () => {
    using bench = await running([{ data: READS, splayMs: 60_000 }]);
    bench.clock.nextRoll = 0.9;
    writeFileSync(bench.path('in'), 'two');
    await bench.until('written', () => bench.out() === 'two' && bench.splays());
    await bench.end();
    assert.deepEqual(bench.world.asked, []);
    bench.watch();
    await bench.until('restarted', () => bench.world.asked.length > 0);
    await bench.end();
    await bench.start();
    bench.watch();
    await bench.looks();
    assert.equal(bench.world.asked.length, 1, 'a start settles it');
  });

  it('a file that goes is no fault, one that stays broken is', async () => {
    using bench = await running([
      { data: '{{ with file "local/in" }}{{ if ne . "one" }}{{ . | parseJSON }}{{ end }}{{ end }}' },
    ]);
    rmSync(bench.path('in'));
    await bench.until('it is told', () => bench.world.events.length > 0);
    await bench.looks();
    assert.deepEqual(bench.world.asked, []);
    writeFileSync(bench.path('in'), 'one');
    await bench.looks();
    assert.deepEqual(bench.world.asked, [], 'it is as it was');
    writeFileSync(bench.path('in'), '{');
    await bench.until('it is the end', () => bench.world.asked.length > 0);
    assert.match(bench.world.asked.join(), /^kill: template local\/out: line 1/);
    assert.deepEqual(
      bench.world.events.map((event) => 'fails' in event && event.fails),
      [false, true],
    );
  });

  describe('change_script', () => {
    const script = { command: 'reload', args: ['${NOMAD_TASK_NAME}'], timeoutMs: 5_000, failOnError: false };
    const SCRIPTED = { data: READS, changeMode: 'script', changeScript: script } as const;

    it('FirstRenderScript: runs once the task runs, not again for a start that changes nothing', async () => {
      using bench = await running([SCRIPTED]);
      await bench.until('it ran', () => bench.world.asked.length > 0);
      assert.deepEqual(bench.world.asked, ['exec: reload main']);
      await bench.end();
      await bench.start();
      bench.watch();
      await bench.looks();
      assert.equal(bench.world.asked.length, 1);
    });

    it('FirstRenderScript: is not forgotten when the first start fails or its agent dies', async () => {
      using bench = new Bench([SCRIPTED, { data: '{{ with file "local/in" | parseJSON }}{{ . }}{{ end }}' }]);
      writeFileSync(bench.path('in'), 'no JSON');
      await assert.rejects(bench.start());
      writeFileSync(bench.path('in'), '[1]');
      await bench.start();
      bench.watch();
      await bench.until('it ran', () => bench.world.asked.length > 0);
      assert.deepEqual(bench.world.asked, ['exec: reload main']);
    });

    it('ScriptExecution: for a change, with what came of it; a failure is an event and no more', async () => {
      using bench = await running([SCRIPTED]);
      await bench.until('the first', () => bench.world.events.length > 0);
      bench.world.execs.push({ exitCode: 3, output: 'no such user\n' });
      writeFileSync(bench.path('in'), 'two');
      await bench.until('the second', () => bench.world.events.length > 2);
      assert.deepEqual(bench.world.asked, ['exec: reload main', 'exec: reload main']);
      assert.deepEqual(bench.world.events, [
        { type: 'Template', message: 'template local/out: change_script reload: exited 0', fails: false },
        { type: 'Template', message: 'Rendered anew: local/out', fails: false },
        {
          type: 'Task hook message',
          hook: 'template',
          message: 'template local/out: change_script reload: exited 3: no such user',
        },
      ]);
    });

    it('ScriptExecutionFailTask: with fail_on_error the task has failed', async () => {
      using bench = await running([{ ...SCRIPTED, changeScript: { ...script, failOnError: true } }]);
      await bench.until('the first', () => bench.world.asked.length > 0);
      bench.world.execs.push(new AgentError('timeout', 'reload did not end within 5000 ms'));
      writeFileSync(bench.path('in'), 'two');
      await bench.until('it is the end', () => bench.world.asked.length > 2);
      assert.match(
        bench.world.asked.at(-1) ?? '',
        /^kill: template local\/out: change_script reload: reload did not/,
      );
      const last = bench.world.events.at(-1);
      assert.equal(last?.type === 'Template' && last.fails, true);
    });

    it('a task that is not there is no failure of the script', async () => {
      using bench = await running([{ ...SCRIPTED, changeScript: { ...script, failOnError: true } }]);
      await bench.until('the first', () => bench.world.asked.length > 0);
      bench.world.execs.push(new AgentError('not_running', 'main does not run'));
      writeFileSync(bench.path('in'), 'two');
      await bench.until('told', () => bench.world.events.at(-1)?.type === 'Task hook message');
      assert.ok(!bench.world.asked.some((asked) => asked.startsWith('kill')));
    });

    it('ChangeModeMixed: a restart goes before scripts, signals and scripts go together', async () => {
      using bench = await running([SCRIPTED, { data: READS, destination: 'local/two' }]);
      await bench.until('the first', () => bench.world.asked.length > 0);
      writeFileSync(bench.path('in'), 'two');
      await bench.until('restarted', () => bench.world.asked.length > 1);
      await bench.looks();
      assert.deepEqual(
        bench.world.asked.map((asked) => asked.split(':')[0]),
        ['exec', 'restart'],
      );
      const signalled = { data: READS, changeSignal: 'SIGHUP', destination: 'local/two' };
      using mixed = await running([SCRIPTED, { ...signalled, changeMode: 'signal' }]);
      await mixed.until('the first', () => mixed.world.asked.length > 0);
      writeFileSync(mixed.path('in'), 'two');
      await mixed.until('both', () => mixed.world.asked.length > 2);
      await mixed.looks();
      assert.deepEqual(mixed.world.asked.slice(1), ['SIGHUP: Template re-rendered', 'exec: reload main']);
    });

    it('RestoreChangeModeScript: the next agent runs it for what changed meanwhile, and what was cut short', async () => {
      using bench = await running([SCRIPTED]);
      await bench.until('the first', () => bench.world.asked.length > 0);
      await bench.end();
      writeFileSync(bench.path('in'), 'meanwhile');
      let release = (): void => undefined;
      bench.world.execs.push(
        new Promise((_resolve, reject) => {
          release = () => {
            reject(new AgentError('cancelled', 'the agent leaves'));
          };
        }),
      );
      bench.watch();
      await bench.until('the second', () => bench.world.asked.length > 1);
      const leaving = bench.end();
      release();
      await leaving;
      bench.watch();
      await bench.until('it runs again', () => bench.world.asked.length > 2);
      await bench.looks();
      assert.equal(bench.world.asked.length, 3);
    });
  });
});
