import type { CallerUse, QuotaByCaller } from '../../admin/quota/quota.ts';
import type { WorkspaceState, WorkspaceStatus } from '../../admin/status/status.ts';
import type { WindowSnapshot } from '../../model/windows.ts';
import { count, counted, duration } from '../../platform/lib/quantities.ts';
import { dataTable, html, lastSent, type Markup, when } from '../html.ts';
import { COLOURS, type Colour, legend, meter, type Series, stackedChart } from './drawings.ts';

export function quotaCard({ quota, state, backlog }: WorkspaceStatus, now: number): Markup {
  const share = `${Math.round(quota.effectiveShare * 100)} %`;
  const isLowered = quota.effectiveShare < quota.ceiling - 0.001;
  return html`<section class="card stack"><div class="row"><h2>Request quota</h2><span class="hint">${counted(quota.inFlight, 'request')} in flight</span></div>
${windowMeter(quota.long)}
${windowMeter(quota.burst)}
${legend([
  { colour: 'c1', words: `worksync: at most ${share} of the long window` },
  { colour: 'c2', words: 'people, commands and jobs' },
])}
<dl class="facts wide"><div><dt>Sending</dt><dd>${stateWords(state, now)}</dd></div>
<div><dt>All sent</dt><dd>${backlog.requests === 0 ? 'nothing waits' : lastSent(backlog.lastSentAt, now)}</dd></div></dl>
${isLowered ? html`<p class="hint">Others use this workspace too, so the share is below its usual ${Math.round(quota.ceiling * 100)} %.</p>` : null}
${quota.limited ? html`<p class="wait">The workspace refused requests recently: one goes at a time.</p>` : null}
${quota.paused ? html`<p class="wait">Paused (${quota.paused.reason}); goes on ${when(quota.paused.until, now)}.</p>` : null}</section>`;
}

function stateWords(state: WorkspaceState, now: number): Markup | string {
  if (state.kind === 'running') return 'sends changes as they come due';
  if (state.kind === 'halted') return html`<span class="bad">sends nothing: ${state.code}</span>`;
  return html`<span class="wait">waits (${state.reason})</span> for ${duration(Math.max(0, state.until - now))}`;
}

function windowMeter({ window, cap, used, usedByBackground, backgroundLimit }: WindowSnapshot): Markup {
  const span = duration(window);
  if (cap === null)
    return html`<div class="row"><span>in ${span}</span><span class="num">${count(used)}, no limit</span></div>`;
  return html`<div><div class="row"><span>in ${span}</span><span class="num"><span class="strong">${count(used)}</span> of ${count(cap)}</span></div>
${meter(
  `${used} of ${cap} requests in ${span}`,
  cap,
  [
    { value: usedByBackground, colour: 'c1' },
    { value: used - usedByBackground, colour: 'c2' },
  ],
  backgroundLimit,
)}</div>`;
}

/** The series has one value per quarter of an hour of a day. */
const QUARTER = 15 * 60_000;
const QUARTERS = 96;
/** Callers with a colour of their own beside the daemon; the others share the last one. */
const DRAWN = COLOURS.length - 2;

const DAEMON = 'worksync itself';
const REST = 'all others';

/** The last 24 hours as columns of a quarter of an hour each, stacked by caller. */
export function usageCard(use: QuotaByCaller): Markup {
  const series = seriesOf(use);
  const total = use.series.reduce((sum, { requests }) => sum + requests, 0);
  const busiest = Math.max(0, ...sumsOf(series));
  const label = `Requests of the last 24 hours by quarters of an hour: ${total} in all, at most ${busiest} in one`;
  return html`<section class="card stack"><div class="row"><h2>Last 24 hours</h2><span class="hint num">${count(total)} requests, at most ${count(busiest)} in 15 min</span></div>
<div>${stackedChart(label, series, use.window === QUARTER ? use.cap : null)}
<div class="axis" aria-hidden="true"><span>24 h ago</span><span>18 h</span><span>12 h</span><span>6 h</span><span>now</span></div></div>
${legend(series.map(({ name, colour }) => ({ colour, words: name })))}</section>`;
}

function sumsOf(series: readonly Series[]): number[] {
  return Array.from({ length: QUARTERS }, (_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0));
}

/** All lanes of the daemon have one colour; the table lists them separately. */
function seriesOf({ at, callers, series }: QuotaByCaller): Series[] {
  const last = Math.floor(at / QUARTER);
  const apart = callers.filter(({ kind }) => kind !== 'daemon').slice(0, DRAWN);
  const names = new Map(callers.map((each) => [each.caller, each]));
  const groupOf = (caller: string): string => {
    const known = names.get(caller);
    if (known?.kind === 'daemon') return DAEMON;
    return known && apart.includes(known) ? known.name : REST;
  };
  const groups = new Map<string, number[]>();
  for (const { since, caller, requests } of series) {
    const column = QUARTERS - 1 - (last - Math.floor(since / QUARTER));
    // After the clock was set back, counts of later quarters remain.
    if (column >= QUARTERS) continue;
    const group = groupOf(caller);
    const values = groups.get(group) ?? Array.from({ length: QUARTERS }, () => 0);
    values[column] = (values[column] ?? 0) + requests;
    groups.set(group, values);
  }
  const order = [DAEMON, ...apart.map(({ name }) => name), REST].filter((name) => groups.has(name));
  return order.map((name, index) => ({ name, colour: colourOf(name, index), values: groups.get(name) ?? [] }));
}

function colourOf(name: string, index: number): Colour {
  if (name === DAEMON) return 'c1';
  return name === REST ? 'c6' : (COLOURS[Math.max(1, index)] ?? 'c6');
}

export function usageTable({ callers }: QuotaByCaller): Markup {
  return dataTable<CallerUse>({
    title: 'Who uses the quota',
    rows: callers,
    empty: 'Nobody has sent a request yet.',
    columns: [
      { title: 'Who', kind: 'name', cell: ({ name }) => name },
      { title: '15 min', kind: 'number', isTitled: true, cell: ({ window }) => usedWords(window) },
      { title: '24 hours', kind: 'number', isTitled: true, cell: ({ day }) => usedWords(day) },
      { title: '7 days', kind: 'number', isTitled: true, cell: ({ week }) => usedWords(week) },
    ],
  });
}

function usedWords({ requests, refused }: CallerUse['day']): Markup {
  return html`${count(requests)}${refused === 0 ? null : html` <span class="wait">(${count(refused)} refused)</span>`}`;
}
