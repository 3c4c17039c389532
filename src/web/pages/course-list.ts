import type { Timeline } from '../../admin/timelines.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { html, type Markup } from '../html.ts';
import { when } from '../moment.ts';
import { type Colour, legend, meter } from './drawings.ts';
import { pathOf } from './page-content.ts';
import { chip, type Tone } from './tones.ts';

const STATES: Readonly<Record<Timeline['state'], readonly [tone: Tone, words: string]>> = {
  answered: ['good', 'answered'],
  settled: ['soft', 'settled'],
  again: ['wait', 'sent again'],
  unknown: ['wait', 'outcome unknown'],
  held: ['bad', 'needs approval'],
  pending: ['soft', 'waits'],
  sending: ['good', 'in flight'],
};

interface Step {
  readonly words: string;
  readonly colour: Colour;
  readonly from: number | null;
  readonly to: number | null;
}

/** What a request went through, in turn. */
function stepsOf({ times, state }: Timeline, now: number): readonly Step[] {
  const { received, decided, due, asked, slot, sent, answered } = times;
  const waits = state === 'pending' ? now : null;
  const decidedAt = decided ?? received;
  const askedAt = asked ?? (due !== null && sent !== null ? Math.min(due, sent) : null);
  return [
    { words: 'read and decided', colour: 'c6', from: received, to: decided },
    { words: 'wait for further events', colour: 'c4', from: decidedAt, to: askedAt ?? waits },
    { words: 'wait for the quota', colour: 'c2', from: askedAt, to: slot ?? sent },
    { words: 'request', colour: 'c1', from: sent, to: answered ?? (state === 'sending' ? now : null) },
  ];
}

function spent({ from, to }: Step): number {
  return from === null || to === null ? 0 : Math.max(0, to - from);
}

/** From the delivery over the decision and the wait for a slot to the answer: a bar for each request. */
export function waterfall(workspace: string, courses: readonly Timeline[], now: number): Markup {
  if (courses.length === 0)
    return html`<section class="card stack"><h2>Requests</h2><p class="empty">Nothing was sent because of it, and nothing waits.</p></section>`;
  const longest = Math.max(
    1,
    ...courses.map((course) => stepsOf(course, now).reduce((sum, step) => sum + spent(step), 0)),
  );
  return html`<section class="card stack"><h2>Requests</h2>
${legend(stepsOf(courses[0] as Timeline, now).map(({ words, colour }) => ({ words, colour })))}
<ol class="falls">${courses.map((course) => fall(workspace, course, now, longest))}</ol></section>`;
}

function fall(workspace: string, course: Timeline, now: number, longest: number): Markup {
  const { about, state, status, error, attempt, times, deliveries, served, action } = course;
  const steps = stepsOf(course, now);
  const [tone, words] = STATES[state];
  const told = steps.filter((step) => spent(step) > 0).map((step) => `${step.words} ${shortTime(spent(step))}`);
  const label = told.length === 0 ? 'no time was spent' : told.join(', ');
  return html`<li class="stack"><div class="row"><div class="line">${chip(tone, status === null ? words : `${words} ${status}`)}<span class="text"><strong>${about.label}</strong>${
    about.item?.title ? html` ${about.item.title}` : null
  }</span></div><span class="hint">${when(times.answered ?? times.sent ?? times.received, now)}</span></div>
${meter(
  label,
  longest,
  steps.map((step) => ({ value: spent(step), colour: step.colour })),
)}
<p class="hint">${label}${attempt > 1 ? ` · attempt ${attempt}` : ''}${action === null ? '' : ` · ${action}`}</p>
${error === null ? null : html`<p class="text bad">${error}</p>`}
${
  served === 0
    ? null
    : html`<p class="hint">because of ${counted(served, 'delivery').replace(/ys$/, 'ies')}: ${deliveries
        .slice(0, 5)
        .map(
          ({ id, event }, index) =>
            html`${index > 0 ? ', ' : ''}<a href="${pathOf(workspace, 'delivery', { id })}">${event} ${id}</a>`,
        )}${served > 5 ? ', …' : ''}</p>`
}</li>`;
}

function shortTime(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1_000).toFixed(1)} s`;
  return `${(milliseconds / 60_000).toFixed(1)} min`;
}
