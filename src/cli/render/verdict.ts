/** Owns the verdict on a job or a host: one word, and the reasons. Pure. */
import type { Tone } from '../output.js';
import { pathOf } from './ps.js';
import { compareTrouble, taskStatus, type TaskStatus, type TaskView } from './task-status.js';
import { plural } from './text.js';

export interface Verdict {
  readonly word: string;
  readonly tone: Tone;
  readonly detail: string;
}

/** Counts behind a verdict, in the order of `Trouble`. */
interface Counts {
  readonly failed: number;
  readonly lost: number;
  readonly retrying: number;
  readonly changing: number;
  readonly well: number;
  readonly over: number;
}

/** How a set of tasks is, taken together: the worst of them decides. */
export function decideVerdict(views: readonly TaskView[], nowMs: number): Verdict {
  const statuses = views.map((view) => taskStatus(view, nowMs));
  const counts = count(statuses);
  const detail = [
    part(counts.failed, 'failed'),
    part(counts.lost, 'lost'),
    part(counts.retrying, 'backing off'),
    part(counts.changing, 'changing'),
    part(counts.well, 'running'),
    part(counts.over, 'over'),
  ]
    .filter((text) => text !== '')
    .join(', ');
  const of = `${plural(views.length, 'task')}${detail === '' ? '' : `: ${detail}`}`;
  if (counts.failed > 0) return { word: 'failed', tone: 'bad', detail: of };
  if (counts.lost > 0) return { word: 'lost', tone: 'bad', detail: of };
  if (counts.retrying > 0) return { word: 'backoff', tone: 'warn', detail: of };
  if (counts.changing > 0) return { word: 'changing', tone: 'warn', detail: of };
  if (counts.well > 0) return { word: 'running', tone: 'good', detail: of };
  const words = new Set(statuses.map(({ text }) => text));
  const [only] = words;
  return { word: only !== undefined && words.size === 1 ? only : 'over', tone: 'dim', detail: of };
}

/** A line for each task that is not as it should be, worst first: which one, and why. */
export function listTroubles(views: readonly TaskView[], nowMs: number): { text: string; tone: Tone }[] {
  return views
    .map((view) => ({ view, status: taskStatus(view, nowMs) }))
    .filter(({ status }) => status.trouble !== 'well' && status.trouble !== 'over')
    .sort((a, b) => compareTrouble(a.status.trouble, b.status.trouble))
    .map(({ view, status }) => ({ text: `${pathOf(view)} ${status.text}`, tone: status.tone }));
}

function count(statuses: readonly TaskStatus[]): Counts {
  const of = (trouble: TaskStatus['trouble']): number =>
    statuses.filter((status) => status.trouble === trouble).length;
  return {
    failed: of('failed'),
    lost: of('lost'),
    retrying: of('retrying'),
    changing: of('changing'),
    well: of('well'),
    over: of('over'),
  };
}

function part(number: number, word: string): string {
  return number === 0 ? '' : `${number} ${word}`;
}
