import type { ListedChange } from '../../admin/changes/waiting-changes.ts';
import { type EntityNames, entityNamesOf } from '../../admin/items/human-names.ts';
import { CHANGE_STATES, type ChangeState, LANES, type Lane } from '../../model/change.ts';
import { count, counted } from '../../platform/lib/quantities.ts';
import { chip, choiceOf, dataTable, html, lastSent, type Markup, type Tone, when } from '../html.ts';
import { entityNoun, entityWords } from '../items/entity-words.ts';
import { actionForm, doneNote } from '../pages/page-actions.ts';
import { type PageContent, pathOf, request, type WorkspacePageContext } from '../pages/page-content.ts';

const STATES: Readonly<Record<ChangeState, readonly [tone: Tone, words: string]>> = {
  pending: ['soft', 'waits'],
  sending: ['good', 'in flight'],
  unknown: ['wait', 'outcome unknown'],
  held: ['bad', 'needs approval'],
};

const LANE_WORDS: Readonly<Record<Lane, string>> = {
  interactive: 'people and commands',
  triage: 'new tasks',
  link: 'links',
  status: 'status changes',
  mirror: 'records',
  read: 'reads',
  backfill: 'backfill',
};

/** Changes on a page, and changes that are searched for those of one lane. */
const SHOWN = 50;
const LOOKED_THROUGH = 1_000;

export async function changesPage(context: WorkspacePageContext): Promise<PageContent> {
  const state = CHANGE_STATES.find((each) => each === context.query.get('state'));
  const lane = LANES.find((each) => each === context.query.get('lane'));
  const limit = lane === undefined ? SHOWN : LOOKED_THROUGH;
  const listed = await request(context, 'changes', { limit, ...(state && { states: [state] }) });
  const rows = context.clean(listed.filter((each) => lane === undefined || each.lane === lane).slice(0, SHOWN));
  const names = context.clean(await entityNamesOf(context.partition, rows));
  return {
    title: 'Changes',
    parts: [
      { id: 'done', body: html`${doneNote(context)}` },
      { id: 'lanes', body: await lanesTable(context) },
      { id: 'search', body: filterForm(context, state, lane), isForm: true },
      { id: 'list', body: list(context, rows, names) },
    ],
  };
}

function filterForm({ partition, status }: WorkspacePageContext, state?: ChangeState, lane?: Lane): Markup {
  const stateWords = (each: ChangeState) => `${STATES[each][1]} (${count(status.changes.byState[each])})`;
  return html`<form class="card filters" method="get" role="search">
${choiceOf({ title: 'State', name: 'state', values: CHANGE_STATES, chosen: state }, stateWords)}
${choiceOf({ title: 'Lane', name: 'lane', values: LANES, chosen: lane }, (each) => LANE_WORDS[each])}
<button>Show</button>${state === undefined && lane === undefined ? null : html`<a class="button" href="${pathOf(partition.name, 'changes')}">Show all</a>`}</form>`;
}

function list(context: WorkspacePageContext, rows: readonly ListedChange[], names: EntityNames): Markup {
  const { partition, now } = context;
  return dataTable<ListedChange>({
    title: rows.length === SHOWN ? `The first ${SHOWN}` : 'All of them',
    rows,
    empty: 'Nothing waits: the workspace has everything.',
    columns: [
      { title: 'State', kind: 'state', cell: ({ state }) => chip(...STATES[state]) },
      {
        title: 'What',
        kind: 'name',
        cell: ({ entity, sets }) => {
          const name = names[entity];
          return name
            ? html`<span class="soft">${entityNoun(name)}</span> ${entityWords(partition.name, name)}${sets ? html`<div class="hint">${sets}</div>` : null}`
            : entity;
        },
      },
      { title: 'Lane', kind: 'tight', cell: ({ lane }) => LANE_WORDS[lane] },
      { title: 'Since', kind: 'tight', cell: ({ since }) => when(since, now) },
      { title: 'Goes', kind: 'tight', isTitled: true, cell: (row) => goesWhen(row, now) },
      { title: 'Last error', kind: 'text', cell: errorWords },
      { title: 'What to do', kind: 'act', cell: (row) => buttonsOf(context, row) },
    ],
  });
}

/** The error of a change, unless the guard holds it: the problem shows that reason once. */
function errorWords({ error, attempts }: ListedChange): Markup | null {
  if (error === null || error.startsWith('guard_held')) return null;
  return html`<span class="text">${error}</span><div class="hint">${counted(attempts, 'attempt')}</div>`;
}

function goesWhen({ state, expectedAt }: ListedChange, now: number): Markup | string | null {
  if (state === 'held') return 'when approved';
  if (state === 'unknown') return 'when its outcome is read';
  if (state === 'sending') return 'now';
  if (expectedAt === null) return 'when the workspace is not blocked any more';
  return expectedAt > now ? when(expectedAt, now) : 'now';
}

function buttonsOf(context: WorkspacePageContext, { entity, state, attempts }: ListedChange): Markup | null {
  const fields = { entity };
  const retry =
    state === 'held' || (state === 'pending' && attempts > 0)
      ? actionForm(context, {
          action: 'change-retry',
          words: state === 'held' ? 'Release' : 'Retry',
          fields,
          id: `retry-${entity}`,
        })
      : null;
  const drop =
    state === 'held'
      ? actionForm(context, {
          ...{ action: 'change-drop', words: 'Drop', fields, look: 'danger', id: `drop-${entity}` },
          question: 'Drop this change? It is not sent. A later change of the item brings it back.',
        })
      : null;
  return retry || drop ? html`<div class="line">${retry}${drop}</div>` : null;
}

/** The pending changes of each lane, with the expected time of the last one. */
async function lanesTable(context: WorkspacePageContext): Promise<Markup> {
  const { status, now, partition } = context;
  const { lanes: waiting } = await request(context, 'quota', {});
  const { backlog, changes } = status;
  const rows = LANES.filter((lane) => waiting[lane] > 0);
  const done =
    backlog.requests === 0
      ? null
      : html`<p class="hint">${counted(backlog.requests, 'request')}: ${lastSent(backlog.lastSentAt, now)}, if nothing more comes</p>`;
  const approval =
    backlog.held === 0
      ? null
      : html`<p class="hint"><a href="${pathOf(partition.name, 'problems')}#changes_held">${counted(backlog.held, 'change')} more</a> need approval</p>`;
  return dataTable<Lane>({
    title: 'What waits',
    note: html`${done}${approval}`,
    rows,
    empty: 'Nothing waits in any lane.',
    columns: [
      { title: 'Lane', kind: 'name', cell: (lane) => LANE_WORDS[lane] },
      { title: 'Waiting', kind: 'number', cell: (lane) => count(waiting[lane]), isTitled: true },
      { title: 'Oldest', kind: 'number', cell: (lane) => when(changes.oldest[lane] ?? null, now), isTitled: true },
    ],
  });
}
