import { type BackfillProgress, backfillProgress, canBackfill } from '../../admin/connections/connections.ts';
import type { ConnectionStatus } from '../../admin/status/status.ts';
import { asTyped } from '../../platform/lib/own-program.ts';
import { count, counted } from '../../platform/lib/quantities.ts';
import { chip, copyable, html, type Markup, type Tone, when } from '../html.ts';
import { actionForm, doneNote } from '../pages/page-actions.ts';
import { mayAct, type PageContent, type Part, pathOf, type WorkspacePageContext } from '../pages/page-content.ts';
import { tokenField } from '../pages/page-frame.ts';
import { failureWords } from '../pages/problem-content.ts';
import { meter } from '../quota/drawings.ts';

/** Each connection: whether it works, when it last did, and what went wrong last. */
export function connectionCards(connections: readonly ConnectionStatus[], now: number): Markup {
  if (connections.length === 0)
    return html`<p class="card">No connection is configured: nothing can come in. Add one under <code>connections</code> in the workspace's file.</p>`;
  return html`<section class="stack"><h2>Connections</h2><div class="grid">${connections.map((each) => connectionCard(each, now))}</div></section>`;
}

function connectionCard(each: ConnectionStatus, now: number): Markup {
  const [tone, words] = stateOf(each);
  return html`<article class="card stack"><div class="row"><h3>${each.name}</h3>${chip(tone, words)}</div>
<dl class="facts"><dt>last webhook</dt><dd>${each.webhookPath ? when(each.lastWebhookAt, now) : 'takes no webhooks'}</dd>
<dt>last complete poll</dt><dd>${each.schedule ? when(each.lastPollAt, now) : 'polls are off'}</dd>
<dt>last refused webhook</dt><dd>${refusedWords(each, now)}</dd>
<dt>last failure</dt><dd>${each.failure ? when(each.failure.at, now) : html`<span class="none">none since</span>`}</dd></dl>
${each.failure ? html`<div>${failureWords(each.failure)}${placeWords(each)}</div>` : null}
${troubles(each)}
<p class="hint">${detailsOf(each)}</p>
<p class="hint">${each.webhookPath ? html`Webhooks at ${copyable(each.webhookPath)}` : 'No webhooks: no secret is configured'}</p></article>`;
}

function refusedWords({ lastRefused }: ConnectionStatus, now: number): Markup {
  if (lastRefused === null) return html`<span class="none">none</span>`;
  const { at, status, code, count: times } = lastRefused;
  return html`${when(at, now)} <span class="wait">${status} ${code}${times > 1 ? `, ${count(times)} times` : ''}</span>`;
}

function stateOf(connection: ConnectionStatus): readonly [Tone, string] {
  const { failure, hooks, missingUnits, names, lastDeliveryAt, lastPollAt } = connection;
  if (failure) return ['bad', 'failing'];
  if (hooks?.silent.length) return ['wait', 'webhooks silent'];
  if (missingUnits.length > 0) return ['wait', 'partly missing'];
  if (names.some(({ elsewhere }) => elsewhere !== null)) return ['wait', 'renamed'];
  return lastDeliveryAt === null && lastPollAt === null ? ['soft', 'quiet so far'] : ['good', 'works'];
}

function detailsOf({ connector, schedule, units, walking, fetches, refusedFetches }: ConnectionStatus): string {
  return [
    connector,
    schedule ? `polls ${schedule}` : null,
    units > 1 ? `${count(units)} lists` : null,
    walking > 0 ? `${count(walking)} being read` : null,
    fetches > 0 ? `${counted(fetches, 'object')} to fetch` : null,
    refusedFetches > 0 ? `${counted(refusedFetches, 'object')} refused` : null,
  ]
    .filter((part) => part !== null)
    .join(' · ');
}

function placeWords({ failure, failingUnits }: ConnectionStatus): Markup | null {
  const place = failure?.unit ? html`in <code>${failure.unit}</code>` : null;
  const others = failingUnits > 1 ? html` and ${count(failingUnits - 1)} more` : null;
  return place || others ? html`<div class="hint">${place}${others}</div>` : null;
}

/** Lines of one kind that stand on a card: the first of many tell enough. */
const MOST_TROUBLES = 20;

/**
 * Faults of its webhooks at the vendor, names that lead elsewhere, and what is switched off or was not found.
 *
 * @param cause of the verdict: only what belongs to it
 */
export function troubles(
  { hooks, names, missingUnits, unverifiedItems, switchedOff, ...refused }: ConnectionStatus,
  cause?: string,
): readonly Markup[] {
  const failure = (words: string | null | undefined) =>
    words ? [html`<div class="text"><span class="wait">webhooks</span> ${words}</div>`] : [];
  const all: Readonly<Record<string, readonly Markup[]>> = {
    names_rebound: names.flatMap(reboundWords),
    renamed: names.flatMap(renamedWords),
    webhooks_silent: (hooks?.silent ?? []).map(silentWords),
    webhooks_unknown: failure(hooks?.failure),
    redeliveries_failing: failure(hooks?.redeliveryFailure),
    switched_off: switchedOff.map((message) => html`<div class="text">${message}</div>`),
    units_missing: missingUnits.map(
      (unit) => html`<div class="text"><span class="wait">not found</span> <code>${unit}</code></div>`,
    ),
    fetches_refused: stoppedWords('not fetched', 'object', refused.refusedFetches, refused.fetchRefusal),
    writes_refused: stoppedWords('not written', 'write', refused.refusedWrites, refused.writeRefusal),
    unverified:
      unverifiedItems > 0
        ? [
            html`<div class="text">${counted(unverifiedItems, 'item')} not confirmed since a restore: nothing is written about them</div>`,
          ]
        : [],
  };
  const wanted = cause === undefined ? Object.values(all) : [all[cause] ?? []];
  return wanted.flatMap(firstOf);
}

function stoppedWords(label: string, noun: string, number: number, reason: string | null): readonly Markup[] {
  if (number === 0) return [];
  return [html`<div class="text"><span class="wait">${label}</span> ${counted(number, noun)}: ${reason}</div>`];
}

function firstOf(lines: readonly Markup[]): readonly Markup[] {
  const more = lines.length - MOST_TROUBLES;
  if (more <= 0) return lines;
  return [...lines.slice(0, MOST_TROUBLES), html`<div class="hint">and ${count(more)} more</div>`];
}

type Name = ConnectionStatus['names'][number];

function reboundWords({ name, id, elsewhere }: Name): readonly Markup[] {
  if (elsewhere === null) return [];
  return [
    html`<div class="text"><span class="wait">scope_rebound</span> ${name} leads to ${elsewhere} now, and led to ${id} before</div>`,
  ];
}

function renamedWords({ name, called, elsewhere }: Name): readonly Markup[] {
  return elsewhere === null ? [html`<div class="text">${name} is now called ${called}</div>`] : [];
}

type SilentHook = NonNullable<ConnectionStatus['hooks']>['silent'][number];

function silentWords({ subject, state, message, hint }: SilentHook): Markup {
  return html`<div class="text"><span class="bad">webhook ${state}</span> at <code>${subject}</code>: ${message}${
    hint ? html`<div class="hint">${asTyped(hint)}</div>` : null
  }</div>`;
}

const STATES: Readonly<Record<BackfillProgress['state'], readonly [tone: Tone, words: string]>> = {
  reading: ['good', 'reads'],
  paused: ['wait', 'paused'],
  sending: ['good', 'sends'],
  done: ['soft', 'done'],
};

/** The reads of older items: how far they are, and how long they will take. */
export async function backfillsPage(context: WorkspacePageContext): Promise<PageContent> {
  const { partition, clock } = context;
  const parts: Part[] = [];
  for (const { name } of partition.connections) {
    const progress = await backfillProgress(partition, name, clock);
    if (progress) parts.push({ id: `backfill-${parts.length}`, body: backfillCard(context, context.clean(progress)) });
  }
  const none = html`<p class="card empty">No backfill was asked for. The first poll takes the open items; a backfill reads the older ones.</p>`;
  const names = partition.connections.filter(canBackfill).map(({ name }) => name);
  return {
    title: 'Backfills',
    parts: [
      { id: 'done', body: html`${doneNote(context)}` },
      ...(parts.length === 0 ? [{ id: 'none', body: none }] : parts),
      ...(names.length > 0 && mayAct(context)
        ? [{ id: 'start', body: startForm(context, names), isForm: true as const }]
        : []),
    ],
  };
}

function backfillCard(context: WorkspacePageContext, progress: BackfillProgress): Markup {
  const { connection, state, since, items, total, units, unitsDone, startedAt, finishedAt, changes, forecast } =
    progress;
  const { now } = context;
  const [tone, words] = STATES[state];
  const isGoing = state === 'reading' || state === 'paused';
  return html`<section class="card stack"><div class="row"><h2>${connection}</h2>${chip(tone, words)}</div>
${
  total === null || total === 0
    ? null
    : meter(`${items} of ${total} items read`, total, [
        { value: items - changes, colour: 'c1' },
        { value: Math.min(items, changes), colour: 'c2' },
      ])
}
<dl class="facts"><dt>items read</dt><dd>${count(items)}${total === null ? null : html` of ${count(total)}`}</dd>
<dt>repositories or projects done</dt><dd>${progress.listed ? `${count(unitsDone)} of ${count(units)}` : 'being listed'}</dd>
<dt>changes to send</dt><dd>${count(changes)}</dd>
<dt>items since</dt><dd>${since?.slice(0, 10) ?? 'the beginning'}</dd>
<dt>asked for</dt><dd>${when(startedAt, now)}</dd>
<dt>${finishedAt === null ? 'all sent' : 'read to the end'}</dt><dd>${finishedAt === null ? etaWords(progress, now) : when(finishedAt, now)}</dd></dl>
${forecast?.objection && isGoing ? html`<p class="wait">It goes slowly: ${forecast.objection}.</p>` : null}
${progress.failures.map(({ unit, error, givenUp }) => html`<p class="text"><span class="${givenUp ? 'bad' : 'wait'}">${givenUp ? 'given up' : 'tried again'}</span> ${unit === null ? null : html`<code>${unit}</code> `}${error}</p>`)}
${isGoing ? html`<div class="line">${buttonsOf(context, connection, state)}</div>` : null}</section>`;
}

function etaWords({ forecast, state }: BackfillProgress, now: number): Markup | string {
  if (state === 'paused') return 'not while it is paused';
  return forecast ? when(forecast.drainedAt, now) : 'not known yet';
}

function buttonsOf(
  context: WorkspacePageContext,
  connection: string,
  state: BackfillProgress['state'],
): readonly (Markup | null)[] {
  const fields = { connection };
  return [
    state === 'paused'
      ? actionForm(context, {
          action: 'backfill-resume',
          words: 'Resume',
          fields,
          look: 'main',
          id: `resume-${connection}`,
        })
      : actionForm(context, { action: 'backfill-pause', words: 'Pause', fields, id: `pause-${connection}` }),
    actionForm(context, {
      action: 'backfill-stop',
      words: 'End it',
      fields,
      look: 'danger',
      question: `End the backfill of ${connection}? What it has read stays; the rest is not read.`,
      id: `stop-${connection}`,
    }),
  ];
}

function startForm(context: WorkspacePageContext, connections: readonly string[]): Markup {
  const { name } = context.partition;
  return html`<section class="card stack"><h2>Start a backfill</h2>
<p class="soft">Reads what a connection had before, newest first, with what the quota has left over. ${counted(connections.length, 'connection')} can.</p>
<form class="filters" method="post" action="${pathOf(name, 'actions/backfill-start')}">${tokenField(context.caller.session?.pageToken ?? '')}
<label>Connection<select name="connection">${connections.map((each) => html`<option>${each}</option>`)}</select></label>
<label>Items changed since<input name="since" type="date"></label><button class="main">Start</button></form></section>`;
}
