import type { Refused } from '../../admin/access/refused.ts';
import type { DeliveryPage, WantedDeliveries } from '../../admin/deliveries/deliveries.ts';
import type { DecidedItem, DeliveryContent, DeliveryTimeline } from '../../admin/deliveries/timelines.ts';
import { DELIVERY_STATES } from '../../model/delivery.ts';
import { bytes, count, counted } from '../../platform/lib/quantities.ts';
import { helpOf } from '../help.ts';
import { chip, choiceOf, copyable, dataTable, html, type Markup, numberOf, type Tone, when } from '../html.ts';
import { itemLink } from '../items/entity-words.ts';
import { actionForm, doneNote } from '../pages/page-actions.ts';
import { mayAct, type PageContent, pathOf, request, type WorkspacePageContext } from '../pages/page-content.ts';
import { note } from '../pages/problem-content.ts';
import { deliveryChip, deliveryTable, fieldsOf, SOURCE_WORDS, wantedOf, waterfall } from './delivery-table.ts';

const SHOWN = 50;
const REFUSED_SHOWN = 50;

/** The page of the deliveries, with a search, and of the refused requests. */
export async function deliveriesPage(context: WorkspacePageContext): Promise<PageContent> {
  const { query } = context;
  const wanted = wantedOf(query);
  const before = numberOf(query, 'before') ?? undefined;
  const page = context.clean(await request(context, 'deliveries', { ...wanted, limit: SHOWN, before }));
  const refused = context.clean(await request(context, 'refused', { limit: REFUSED_SHOWN }));
  return {
    title: 'Deliveries',
    parts: [
      { id: 'done', body: html`${doneNote(context)}` },
      { id: 'search', body: filterForm(context, wanted), isForm: true },
      { id: 'replay', body: html`${await replayPreview(context, wanted)}` },
      { id: 'list', body: list(context, wanted, page) },
      { id: 'refused', body: refusedTable(refused, context.now) },
    ],
  };
}

function filterForm({ partition }: WorkspacePageContext, wanted: WantedDeliveries): Markup {
  const names = partition.connections.map(({ name }) => name);
  return html`<form class="card filters" method="get" role="search"><label class="whole">Vendor’s id, our number, or an item such as owner/repo#12
<input type="search" name="about" value="${wanted.about ?? ''}"></label>
${choiceOf({ title: 'State', name: 'state', values: DELIVERY_STATES, chosen: wanted.state })}
${choiceOf({ title: 'Connection', name: 'connection', values: names, chosen: wanted.connection })}
<label class="tick"><input type="checkbox" name="own" value="yes"${wanted.own ? html` checked` : null}>own answers too</label>
<button>Search</button>${Object.keys(fieldsOf(wanted)).length === 0 ? null : html`<a class="button" href="${pathOf(partition.name, 'deliveries')}">Show all</a>`}</form>`;
}

function list(
  context: WorkspacePageContext,
  wanted: WantedDeliveries,
  { deliveries, next, lookedBackTo }: DeliveryPage,
): Markup {
  const { partition, now, query } = context;
  const older = next === null ? null : pathOf(partition.name, 'deliveries', { ...fieldsOf(wanted), before: next });
  const isLater = query.get('before') !== undefined;
  const replayLink =
    mayAct(context) && deliveries.length > 0 && query.get('preview') === undefined
      ? html`<a class="button" id="replay-preview" href="${pathOf(partition.name, 'deliveries', { ...fieldsOf(wanted), preview: 'replay' })}">Replay these…</a>`
      : null;
  const foot = html`<div class="pager">${isLater ? html`<a href="${pathOf(partition.name, 'deliveries', fieldsOf(wanted))}">← Newest</a>` : html`<span class="none">newest first</span>`}
${replayLink}${older === null ? html`<span class="none">nothing older</span>` : html`<a href="${older}">Older →</a>`}</div>`;
  const looked = lookedBackTo === null ? null : html`<p class="hint">back to ${when(lookedBackTo, now)}</p>`;
  const isFiltered = Object.keys(fieldsOf(wanted)).length > 0;
  return deliveryTable({
    ...{ workspace: partition.name, title: 'Received', deliveries, now, foot, note: looked },
    empty: isFiltered
      ? 'No delivery is like that.'
      : 'Nothing has come in yet. Send a test delivery to the webhook address of a connection, or wait for the next poll.',
  });
}

/** Returns the number of deliveries that the filter matches, before a replay. */
async function replayPreview(context: WorkspacePageContext, wanted: WantedDeliveries): Promise<Markup | null> {
  if (context.query.get('preview') !== 'replay' || !mayAct(context)) return null;
  const { replayed, purged, own, more } = await request(context, 'replay', { ...wanted, preview: true });
  const left = [
    purged > 0 ? `${count(purged)} whose content was forgotten` : null,
    own > 0 ? `${count(own)} of the workspace itself, which is read again instead` : null,
  ].filter((each) => each !== null);
  const words = `${count(replayed)}${more ? ' or more' : ''} ${replayed === 1 ? 'delivery' : 'deliveries'} would be judged again`;
  return note(
    'wait',
    words,
    html`<p>By the rules and the connectors of now. The newest wins as ever, so an old delivery takes nothing back.${
      left.length === 0 ? null : ` Left out: ${left.join(', ')}.`
    }</p><div class="line">${
      replayed === 0
        ? null
        : actionForm(context, {
            action: 'replay',
            words: `Replay ${count(replayed)}`,
            fields: fieldsOf(wanted),
            look: 'main',
            id: 'replay-all',
          })
    }<a class="button" href="${pathOf(context.partition.name, 'deliveries', fieldsOf(wanted))}">Back</a></div>`,
  );
}

/** Lists the refused requests. None of them was stored, so their senders must be corrected. */
function refusedTable(refused: readonly Refused[], now: number): Markup {
  return dataTable<Refused>({
    title: 'Refused at the door',
    note: html`<p class="hint">Requests that proved nothing, or led nowhere: their senders need a correction. Bodies are not kept.</p>`,
    rows: refused,
    empty: 'No request was refused.',
    columns: [
      { title: 'State', kind: 'state', cell: ({ status }) => chip('bad', String(status)) },
      {
        title: 'Request',
        kind: 'name',
        cell: ({ method, path, code }) =>
          html`<code>${method} ${path}</code><div class="hint"><code>${code}</code></div>`,
      },
      { title: 'From', kind: 'tight', cell: ({ address }) => html`<code>${address}</code>` },
      { title: 'Times', kind: 'number', isTitled: true, cell: ({ count: times }) => count(times) },
      { title: 'Last', kind: 'tight', isTitled: true, cell: ({ lastAt }) => when(lastAt, now) },
      {
        title: 'Why',
        kind: 'text',
        cell: ({ reason, headers }) =>
          html`${reason}<details><summary>${counted(headers.length, 'header')}</summary><pre>${headers.map(([name, value]) => `${name}: ${value}\n`)}</pre></details>`,
      },
    ],
  });
}

/** The page of one delivery: received, verified, read, decided, sent, answered. */
export async function deliveryPage(context: WorkspacePageContext): Promise<PageContent> {
  const { partition, now, query } = context;
  const timeline = context.clean(await request(context, 'delivery', { delivery: query.get('id') ?? '' }));
  const { delivery, courses, read, body } = timeline;
  return {
    title: `Delivery ${delivery.id}`,
    parts: [
      { id: 'done', body: html`${doneNote(context)}` },
      { id: 'facts', body: factsCard(context, timeline) },
      { id: 'read', body: html`${readCard(partition.name, read)}` },
      { id: 'courses', body: waterfall(partition.name, courses, now) },
      { id: 'raw', body: rawCard(read, body) },
    ],
  };
}

function factsCard(context: WorkspacePageContext, { delivery, verified }: DeliveryTimeline): Markup {
  const { now } = context;
  const { id, key, connection, connector, source, event, state, reason, attempts, receivedAt, settledAt } = delivery;
  const canReplay = state !== 'pending' && delivery.bytes !== null && source !== 'answer' && source !== 'workspace';
  return html`<section class="card stack"><div class="row"><h2>${connection} · ${event}</h2>${deliveryChip(state)}</div>
${reason === null ? null : html`<p class="text">${reason}</p>`}
<dl class="facts wide"><div><dt>Vendor’s id</dt><dd>${copyable(key)}</dd></div>
<div><dt>Our number</dt><dd>${copyable(String(id))}</dd></div>
<div><dt>Source</dt><dd>${SOURCE_WORDS[source]}${connector === null ? null : `, ${connector}`}</dd></div>
<div><dt>Received</dt><dd>${when(receivedAt, now)}</dd></div>
<div><dt>Decided</dt><dd>${settledAt === null ? 'not yet' : when(settledAt, now)}${attempts > 0 ? `, after ${counted(attempts, 'failed attempt')}` : ''}</dd></div>
<div><dt>Proved by</dt><dd>${verified}</dd></div>
<div><dt>Size</dt><dd>${delivery.bytes === null ? 'content forgotten' : bytes(delivery.bytes)}</dd></div></dl>
${
  canReplay
    ? html`<div class="line">${actionForm(context, { action: 'replay', words: 'Replay', fields: { id }, id: 'replay-one' })}<span class="hint">Judges it again by the present rules; the newest wins as ever.</span></div>`
    : null
}</section>`;
}

const DECISIONS: Readonly<Record<DecidedItem['decision'], readonly [tone: Tone, words: string]>> = {
  changed: ['good', 'changed'],
  unchanged: ['soft', 'nothing new'],
  forgotten: ['soft', 'long ago'],
  pending: ['wait', 'not judged yet'],
  unknown: ['soft', 'not stored'],
};

function readCard(workspace: string, read: DeliveryContent | null): Markup | null {
  if (read === null) return null;
  const card = (body: Markup) => html`<section class="card stack"><h2>What it says</h2>${body}</section>`;
  if (read.outcome === 'ignored') return card(html`<p>Nothing of interest: ${read.reason}</p>`);
  if (read.outcome === 'failed')
    return card(
      html`<p class="text"><span class="bad">It cannot be read:</span> ${read.message}</p><p class="hint"><a href="${helpOf(read.code)}"><code>${read.code}</code></a></p>`,
    );
  if (read.outcome === 'answer')
    return card(html`<p>The answer to <code>${read.action}</code> of <code>${read.entity}</code></p>`);
  return dataTable<DecidedItem>({
    title: `What it says: ${counted(read.count, 'item')}`,
    rows: read.items,
    empty: 'It tells of no item.',
    columns: [
      { title: 'Decision', kind: 'state', cell: ({ decision }) => chip(...DECISIONS[decision]) },
      { title: 'Item', kind: 'name', cell: (item) => itemLink(workspace, item) },
      {
        title: 'How',
        kind: 'text',
        cell: ({ isFetched }) => (isFetched ? 'named only: worksync asked its vendor for it' : null),
      },
    ],
  });
}

function rawCard(read: DeliveryContent | null, body: DeliveryTimeline['body']): Markup {
  const decoded = read?.outcome === 'items' ? read.decoded : null;
  return html`<section class="card stack"><h2>Content</h2>
${decoded === null ? null : html`<details id="decoded"><summary>As worksync reads it</summary><pre tabindex="0">${decoded.text}${decoded.isCut ? '\n…' : ''}</pre></details>`}
${
  body === null
    ? html`<p class="soft">The bytes were forgotten after their retention time.</p>`
    : html`<details id="raw-body"><summary>As received${body.encoding === 'base64' ? ', in base64' : ''}</summary><pre tabindex="0">${body.text}${body.isCut ? '\n…' : ''}</pre></details>`
}</section>`;
}
