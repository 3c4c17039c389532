import type { Answered } from '../../admin/admin-operations.ts';
import { TIMELINE_PHASE_LABELS } from '../../admin/labels.ts';
import { printable } from '../../platform/lib/text.ts';
import { brief } from '../words.ts';

type Timeline = Answered<'delivery'>['courses'][number];
type Phase = Timeline['phases'][number];

const STATES: Readonly<Record<Timeline['state'], string>> = {
  answered: 'answered',
  settled: 'refused, and not repeated',
  again: 'failed, and sent again',
  unknown: 'outcome unknown',
  held: 'held: it needs approval',
  pending: 'waits to be sent',
  sending: 'is being sent',
};

const LABEL_WIDTH = Math.max(...Object.values(TIMELINE_PHASE_LABELS).map(({ length }) => length));

const WIDTH = 40;

/** One request, or a change that waits for one, with a bar for each phase. */
export function describeTimeline(timeline: Timeline): string[] {
  const { about, action, request, state, status, error, attempt, deliveries, served, phases } = timeline;
  const from = phases[0]?.from;
  const until = Math.max(...phases.map(({ from: start, to }) => to ?? start));
  const what = [action, request === null ? '' : `request ${request}`, attempt > 1 ? `attempt ${attempt}` : ''];
  const ids = deliveries.map(({ id }) => id).join(', ');
  return [
    `${about.label}: ${STATES[state]}${status === null ? '' : ` ${status}`}  ${what.filter(Boolean).join(', ')}`,
    ...(error === null ? [] : [`  ${error}`]),
    ...(served === 0 ? [] : [`  for ${served === 1 ? 'delivery' : `${served} deliveries:`} ${ids}`]),
    ...(from === undefined ? [] : [`  from ${new Date(from).toISOString()}`]),
    ...phases.map(
      (phase) =>
        `  ${TIMELINE_PHASE_LABELS[phase.name].padEnd(LABEL_WIDTH)} |${barOf(phase, from ?? 0, until)}| ${lengthOf(phase)}`,
    ),
  ].map(printable);
}

function barOf({ from, to }: Phase, start: number, until: number): string {
  const scale = WIDTH / Math.max(1, until - start);
  const begin = Math.min(WIDTH - 1, Math.floor((from - start) * scale));
  const end = Math.max(begin + 1, Math.min(WIDTH, Math.round(((to ?? until) - start) * scale)));
  return `${' '.repeat(begin)}${'█'.repeat(end - begin)}${' '.repeat(WIDTH - end)}`;
}

function lengthOf({ from, to }: Phase): string {
  return to === null ? 'still waits' : brief(to - from);
}
