import type { ShownDelivery, WantedDeliveries } from '../../admin/deliveries/deliveries.ts';
import type { Phase, Timeline } from '../../admin/deliveries/timelines.ts';
import { TIMELINE_PHASE_LABELS } from '../../admin/labels.ts';
import { DELIVERY_SOURCES, DELIVERY_STATES, type DeliveryOrigin, type DeliveryState } from '../../model/delivery.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { chip, dataTable, html, type Markup, type Tone, when } from '../html.ts';
import { itemLink } from '../items/entity-words.ts';
import { linkTo } from '../pages/page-content.ts';
import { type Colour, legend, meter } from '../quota/drawings.ts';

/** Reads the filter from an address; values without a meaning are left out. */
export function wantedOf(given: { get(name: string): string | null | undefined }): WantedDeliveries {
  const [about, state, connection, source] = ['about', 'state', 'connection', 'source'].map(
    (name) => (given.get(name) ?? '').trim() || undefined,
  );
  return {
    about,
    connection,
    state: DELIVERY_STATES.find((each) => each === state),
    source: DELIVERY_SOURCES.find((each) => each === source),
    own: given.get('own') === 'yes' || undefined,
  };
}

/** Writes the filter as parameters of an address, or fields of a form. */
export function fieldsOf({ own, ...texts }: WantedDeliveries): Record<string, string> {
  const all = { ...texts, own: own ? 'yes' : undefined };
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

const TONES: Readonly<Record<DeliveryState, Tone>> = {
  pending: 'wait',
  applied: 'good',
  superseded: 'soft',
  ignored: 'soft',
  quarantined: 'bad',
};

export function deliveryChip(state: DeliveryState): Markup {
  return chip(TONES[state], state);
}

/** Connection and event of a delivery, which lead to its page. */
export function deliveryLink(
  workspace: string,
  { id, connection, event }: Pick<ShownDelivery, 'id' | 'connection' | 'event'>,
): Markup {
  return linkTo(workspace, 'delivery', { id }, `${connection} · ${event}`);
}

export const SOURCE_WORDS: Readonly<Record<DeliveryOrigin, string>> = {
  webhook: 'webhook',
  poll: 'poll',
  backfill: 'backfill',
  fetch: 'fetch',
  answer: 'own answer',
  workspace: 'workspace',
};

interface DeliveryList {
  readonly workspace: string;
  readonly title: string;
  readonly deliveries: readonly (Omit<ShownDelivery, 'items'> & Partial<Pick<ShownDelivery, 'items'>>)[];
  readonly now: number;
  readonly empty: string;
  readonly note?: Markup | null;
  readonly foot?: Markup | null;
}

/** Deliveries by their items, as far as those are known. */
export function deliveryTable({ workspace, deliveries, now, ...options }: DeliveryList): Markup {
  return dataTable<DeliveryList['deliveries'][number]>({
    ...options,
    rows: deliveries,
    columns: [
      { title: 'State', kind: 'state', cell: ({ state }) => deliveryChip(state) },
      {
        title: 'Delivery',
        kind: 'name',
        cell: (delivery) => deliveryLink(workspace, delivery),
      },
      {
        title: deliveries.some(({ items }) => items?.length) ? 'About' : 'Why',
        kind: 'text',
        cell: ({ items = null, reason }) => {
          const names = (items ?? []).map((item) => html`<div class="name">${itemLink(workspace, item)}</div>`);
          const why = reason === null ? null : html`<div class="hint">${reason}</div>`;
          return names.length === 0 && why === null ? null : html`${names}${why}`;
        },
      },
      { title: 'Source', kind: 'tight', cell: ({ source }) => SOURCE_WORDS[source] },
      { title: 'Received', kind: 'tight', cell: ({ receivedAt }) => when(receivedAt, now) },
    ],
  });
}

const STATES: Readonly<Record<Timeline['state'], readonly [tone: Tone, words: string]>> = {
  answered: ['good', 'answered'],
  settled: ['soft', 'settled'],
  again: ['wait', 'sent again'],
  unknown: ['wait', 'outcome unknown'],
  held: ['bad', 'needs approval'],
  pending: ['soft', 'waits'],
  sending: ['good', 'in flight'],
};

const PHASE_COLOURS: Readonly<Record<Phase['name'], Colour>> = { decision: 'c6', due: 'c4', slot: 'c2', request: 'c1' };

/** Length of a phase in milliseconds; up to now if it is under way. */
function spent({ from, to }: Phase, { state }: Timeline, now: number): number {
  const isUnderWay = state === 'pending' || state === 'sending';
  return Math.max(0, (to ?? (isUnderWay ? now : from)) - from);
}

/** From the delivery over the decision and the wait for a slot to the answer: a bar for each request. */
export function waterfall(workspace: string, courses: readonly Timeline[], now: number): Markup {
  if (courses.length === 0)
    return html`<section class="card stack"><h2>Requests</h2><p class="empty">Nothing was sent because of it, and nothing waits.</p></section>`;
  const longest = Math.max(
    1,
    ...courses.map((timeline) => timeline.phases.reduce((sum, phase) => sum + spent(phase, timeline, now), 0)),
  );
  return html`<section class="card stack"><h2>Requests</h2>
${legend(Object.entries(TIMELINE_PHASE_LABELS).map(([name, words]) => ({ words, colour: PHASE_COLOURS[name as Phase['name']] })))}
<ol class="falls">${courses.map((timeline) => fall(workspace, timeline, now, longest))}</ol></section>`;
}

function fall(workspace: string, timeline: Timeline, now: number, longest: number): Markup {
  const { about, state, status, error, attempt, times, deliveries, served, action } = timeline;
  const bars = timeline.phases.map((phase) => ({ name: phase.name, value: spent(phase, timeline, now) }));
  const [tone, words] = STATES[state];
  const texts = bars
    .filter(({ value }) => value > 0)
    .map(({ name, value }) => `${TIMELINE_PHASE_LABELS[name]} ${shortTime(value)}`);
  const label = texts.length === 0 ? 'no time was spent' : texts.join(', ');
  return html`<li class="stack"><div class="row"><div class="line">${chip(tone, status === null ? words : `${words} ${status}`)}<span class="text"><strong>${about.label}</strong>${
    about.item?.title ? html` ${about.item.title}` : null
  }</span></div><span class="hint">${when(times.answered ?? times.sent ?? times.received, now)}</span></div>
${meter(
  label,
  longest,
  bars.map(({ name, value }) => ({ value, colour: PHASE_COLOURS[name] })),
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
            html`${index > 0 ? ', ' : ''}${linkTo(workspace, 'delivery', { id }, `${event} ${id}`)}`,
        )}${served > 5 ? ', …' : ''}</p>`
}</li>`;
}

function shortTime(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1_000).toFixed(1)} s`;
  return `${(milliseconds / 60_000).toFixed(1)} min`;
}
