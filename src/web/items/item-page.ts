import type { ShownItem, ShownItems } from '../../admin/items/item-timeline.ts';
import { nextWords, reasonWords } from '../../model/workflow.ts';
import { asTyped, ofWorkspace } from '../../platform/lib/own-program.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { deliveryTable, waterfall } from '../deliveries/delivery-table.ts';
import { HELP_OF_REASONS } from '../help.ts';
import { chip, copyable, dataTable, fact, html, type Markup, type Tone, when } from '../html.ts';
import { linkTo, type PageContent, type Part, request, type WorkspacePageContext } from '../pages/page-content.ts';

type ExplainedItem = ShownItem['explained'];
type ExplainedTask = ShownItems['statuses'][number];

/** One item with everything that is known of it: why it is linked or not, and what was sent for it. */
export async function itemPage(context: WorkspacePageContext): Promise<PageContent> {
  const name = context.query.get('name') ?? '';
  const search: Part = { id: 'search', body: searchForm(name), isForm: true };
  if (name === '') return { title: 'Item', parts: [search] };
  const { task, statuses, items, count } = context.clean(await request(context, 'items', { name }));
  const parts = items.flatMap((item, index) => partsOf(context, item, index));
  const [first] = items;
  const about = task
    ? html`<p class="soft">${counted(count, 'item')} now or formerly linked to the task <strong>${task.name}</strong></p>`
    : null;
  return {
    title: task ? `Task ${task.name}` : (first?.name ?? 'Item'),
    parts: [search, { id: 'task', body: html`${about}` }, ...statusParts(context, statuses), ...parts],
  };
}

/** The status of a task: who set it, what the rules want, and the part of each linked item. */
function statusParts(context: WorkspacePageContext, statuses: readonly ExplainedTask[]): readonly Part[] {
  return statuses.map((task) => ({
    id: `status-${task.taskId}`,
    body: html`${statusCard(context, task)}${statusItems(context.partition.name, task, context.now)}`,
  }));
}

const AUTHORS = { worksync: 'worksync', person: 'a person', creation: 'the creator of the task' } as const;

function statusCard({ now, named }: WorkspacePageContext, task: ExplainedTask): Markup {
  const { name, status, knownAt, setBy, previous, wanted, reason, labels, change, fieldsOfPeople } = task;
  const who = setBy.rule === null ? AUTHORS[setBy.who] : `worksync, ${setBy.rule}`;
  return html`<section class="card stack"><div class="row"><h2 class="text">Status of ${name}</h2>${chip('soft', status)}</div>
<dl class="facts wide">${fact('Set by', who)}
${fact('Set at', setBy.since === null ? null : when(setBy.since, now))}
${fact('Read', when(knownAt, now))}
${fact('Before', previous)}
${fact('Wanted', wanted && `${wanted.status}: ${wanted.rule}${wanted.item === null ? '' : `, because of ${wanted.item}`}`)}
${fact('No change', reason && reasonWords(reason))}
${fact('Remedy', reason?.remedy ? asTyped(ofWorkspace(reason.remedy, named)) : null)}
${fact('Labels to add', labels.add.join(', ') || null)}
${fact('Labels to remove', labels.remove.join(', ') || null)}
${fact('Next', change && nextOf(change, now))}
${fact('Fields edited by people', fieldsOfPeople.join(', ') || null)}</dl>
<p class="hint"><a href="${HELP_OF_REASONS}">If a task does not move</a></p></section>`;
}

function nextOf(change: NonNullable<ExplainedTask['change']>, now: number): Markup {
  const { words, isTimed } = nextWords(change);
  const { expectedAt } = change;
  return isTimed
    ? html`${words} ${expectedAt !== null && expectedAt > now ? when(expectedAt, now) : 'now'}`
    : html`${words}`;
}

function statusItems(workspace: string, { items, more }: ExplainedTask, now: number): Markup {
  const table = dataTable<ExplainedTask['items'][number]>({
    title: 'Part of each item in the status',
    rows: items,
    empty: 'No linked item is evaluated.',
    columns: [
      { title: 'Item', kind: 'name', cell: ({ key, name }) => linkTo(workspace, 'item', { name: key }, name) },
      { title: 'State', kind: 'tight', cell: ({ phase, since }) => html`${phase} ${when(since, now)}` },
      { title: 'Link', kind: 'tight', cell: ({ strength, place }) => `${strength}, ${place}` },
      {
        title: 'Part',
        kind: 'text',
        cell: ({ counts, status, reason }) =>
          [counts ? status : 'does not count', reasonWords(reason)].filter(Boolean).join(': '),
      },
    ],
  });
  return html`${table}${more > 0 ? html`<p class="soft">and ${counted(more, 'item')} more</p>` : null}`;
}

function searchForm(name: string): Markup {
  return html`<form class="filters" method="get" role="search"><label class="whole">Item or task: owner/repo#12, ENG-123, BUG-12, or an address<input type="search" name="name" value="${name}"></label><button>Show</button></form>`;
}

function partsOf({ partition, now }: WorkspacePageContext, item: ShownItem, index: number): readonly Part[] {
  const { explained, courses, deliveries } = item;
  const workspace = partition.name;
  return [
    { id: `item-${index}`, body: factsCard(item, now) },
    { id: `links-${index}`, body: linksTable(workspace, explained) },
    { id: `others-${index}`, body: html`${othersTable(explained)}` },
    { id: `courses-${index}`, body: waterfall(workspace, courses, now) },
    {
      id: `deliveries-${index}`,
      body: deliveryTable({
        workspace,
        title: 'Deliveries that changed it',
        deliveries,
        now,
        empty: 'None is remembered.',
      }),
    },
  ];
}

const STATES: Readonly<Record<string, Tone>> = {
  open: 'good',
  in_progress: 'good',
  merged: 'soft',
  closed: 'soft',
  declined: 'soft',
  done: 'soft',
};

function factsCard(item: ShownItem, now: number): Markup {
  const { name, title, url, key, fields, gone, providerTime, seenAt, connection, tasks, explained } = item;
  const state = gone
    ? chip('bad', 'gone at its vendor')
    : fields.state
      ? chip(STATES[fields.state] ?? 'soft', fields.state.replace('_', ' '))
      : null;
  return html`<section class="card stack"><div class="row"><h2 class="text">${title ?? name}</h2>${state}</div>
<dl class="facts wide">${fact('Called', url === null || !/^https?:/.test(url) ? name : html`<a href="${url}" rel="noreferrer">${name}</a>`)}
${fact('Author', fields.author)}
${fact('Branch', fields.kind === 'pull_request' ? fields.headBranch : null)}
${fact('Labels', fields.labels?.join(', '))}
${fact('Tasks', tasks.length === 0 ? 'none' : tasks.map((task) => task.name).join(', '))}
${fact('Connection', connection)}
${fact('Moved to', explained.movedTo)}
${fact('Changed at its vendor', when(providerTime, now))}
${fact('Stored', when(seenAt, now))}
${fact('Id', copyable(key))}</dl>
${explained.triage === null ? null : html`<p class="text"><span class="soft">Triage:</span> ${explained.triage}</p>`}
${explained.writeBack.map(({ kind, state: done, error }) => html`<p class="text"><span class="soft">Write-back:</span> ${kind} ${done}${error === null ? null : html` <span class="bad">${error}</span>`}</p>`)}
${explained.notWritten == null ? null : html`<p class="text"><span class="soft">Write-back:</span> ${explained.notWritten}</p>`}</section>`;
}

type Link = ExplainedItem['links'][number];

const LINKS: Readonly<Record<Link['state'], readonly [tone: Tone, words: string]>> = {
  linked: ['good', 'linked'],
  manual: ['good', 'linked by a person'],
  removed: ['soft', 'removed by a person'],
  waiting: ['wait', 'waits'],
  sending: ['wait', 'in flight'],
  held: ['bad', 'needs approval'],
  unknown: ['wait', 'outcome unknown'],
  withdrawn: ['soft', 'not sent'],
  absent: ['soft', 'not wanted'],
};

function linksTable(workspace: string, { links }: ExplainedItem): Markup {
  return dataTable<Link>({
    title: 'Links',
    rows: links,
    empty: 'It is linked to no task.',
    columns: [
      { title: 'State', kind: 'state', cell: ({ state }) => chip(...LINKS[state]) },
      { title: 'Task', kind: 'name', cell: ({ task, name }) => linkTo(workspace, 'item', { name: task }, name) },
      {
        title: 'Why',
        kind: 'text',
        cell: ({ reason, error }) =>
          html`${reason === null ? html`<span class="soft">no text asks for it</span>` : html`${placeWords(reason.place)} says <code>${reason.text}</code>`}${
            error === null ? null : html`<div class="bad">${error}</div>`
          }`,
      },
      {
        title: 'Delivery',
        kind: 'tight',
        isTitled: true,
        cell: ({ delivery }) => delivery && linkTo(workspace, 'delivery', { id: delivery.id }, String(delivery.id)),
      },
    ],
  });
}

function placeWords(place: string): string {
  return `the ${place.replaceAll('_', ' ').replaceAll('-', ' ')}`;
}

function othersTable({ others }: ExplainedItem): Markup | null {
  if (others.length === 0) return null;
  return dataTable<ExplainedItem['others'][number]>({
    title: 'Named, and not linked',
    rows: others,
    empty: '',
    columns: [
      { title: 'Text', kind: 'name', cell: ({ text }) => html`<code>${text}</code>` },
      { title: 'Where', kind: 'tight', cell: ({ place }) => placeWords(place) },
      { title: 'Why not', kind: 'text', cell: ({ why }) => why },
    ],
  });
}
