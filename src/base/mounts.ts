/** Owns what is mounted where, as this process sees it. */
import { readFileSync, realpathSync } from 'node:fs';

/** Where something is mounted, in the order in which it was. Pure. @param mountinfo text of /proc/self/mountinfo */
export function parseMountPoints(mountinfo: string): readonly string[] {
  return mountinfo.split('\n').flatMap((line) => {
    const point = line.split(' ')[4];
    return point === undefined ? [] : unescapeOctal(point);
  });
}

/** The kernel writes spaces and the like as `\040`. */
export function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(parseInt(digits, 8)));
}

/** What is mounted on `dir` or below it, the last first: in this order it can be unmounted. @throws a system error */
export function mountsWithin(dir: string): readonly string[] {
  const real = realpathSync.native(dir);
  return parseMountPoints(readFileSync('/proc/self/mountinfo', 'utf8'))
    .filter((point) => point === real || point.startsWith(`${real}/`))
    .reverse();
}
