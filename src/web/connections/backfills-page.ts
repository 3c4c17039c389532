import {
  type BackfillProgress,
  type BackfillState,
  backfillProgress,
  canBackfill,
} from '../../admin/connections/backfill.ts';
import { count, counted } from '../../platform/lib/quantities.ts';
import { html, type Markup } from '../html.ts';
import { chip, type Tone, when } from '../pages/fragments.ts';
import { actionForm, doneNote } from '../pages/page-actions.ts';
import { mayAct, type PageContent, type Part, pathOf, type WorkspacePageContext } from '../pages/page-content.ts';
import { tokenField } from '../pages/page-frame.ts';
import { meter } from '../quota/drawings.ts';

const STATES: Readonly<Record<BackfillState, readonly [tone: Tone, words: string]>> = {
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
  state: BackfillState,
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
