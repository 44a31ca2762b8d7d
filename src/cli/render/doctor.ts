/** Owns the list of `doctor`: what, why, and what to do. Pure. */
import type { DoctorFinding } from '../../api/wire.js';
import type { Look, Tone } from '../output.js';
import { plural, sanitize } from './text.js';

/** Two lines for each finding, and a last one that sums up. Lines are not cut: paths must be whole. */
export function renderFindings(findings: readonly DoctorFinding[], look: Look): string[] {
  const lines = findings.flatMap((finding) => {
    const { word, tone, next } = outcomeOf(finding);
    const what = `${sanitize(finding.Kind)}  ${sanitize(finding.Subject)}: ${sanitize(finding.Problem)}`;
    return [`${look.paint(tone, word)}  ${what}`, look.paint('dim', `       ${sanitize(next)}`)];
  });
  return [...lines, summary(findings)];
}

function outcomeOf({ Outcome, Advice, Error }: DoctorFinding): { word: string; tone: Tone; next: string } {
  switch (Outcome) {
    case 'open':
      return { word: 'found', tone: 'warn', next: Advice };
    case 'fixed':
      return { word: 'fixed', tone: 'good', next: 'done' };
    case 'failed':
      return { word: 'stays', tone: 'bad', next: `cannot be fixed: ${Error}` };
  }
}

function summary(findings: readonly DoctorFinding[]): string {
  const left = findings.filter(({ Outcome }) => Outcome !== 'fixed');
  if (findings.length === 0) return 'nothing found: all is clean';
  if (left.length === 0) return `${plural(findings.length, 'finding')}, all fixed`;
  const curable = left.filter(({ CanFix, Outcome }) => CanFix && Outcome === 'open').length;
  const fixed = findings.length - left.length;
  return [
    plural(findings.length, 'finding'),
    ...(fixed > 0 ? [`${fixed} fixed`] : []),
    ...(curable > 0 ? [`"holdfast doctor --fix" cures ${curable}`] : []),
  ].join(', ');
}
