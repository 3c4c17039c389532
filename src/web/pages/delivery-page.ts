import type { DecidedItem, DeliveryContent, DeliveryTimeline } from '../../admin/delivery-timeline.ts';
import { bytes, counted } from '../../platform/lib/quantities.ts';
import { helpOf } from '../help.ts';
import { html, type Markup } from '../html.ts';
import { when } from '../moment.ts';
import { waterfall } from './course-list.ts';
import { dataTable } from './data-table.ts';
import { deliveryChip, SOURCE_WORDS } from './delivery-table.ts';
import { itemLink } from './entity-words.ts';
import { actionForm, doneNote } from './page-actions.ts';
import { ask, type PageContent, type WorkspaceVisit } from './page-content.ts';
import { chip, copyable, type Tone } from './tones.ts';

/** The page of one delivery: received, verified, read, decided, sent, answered. */
export async function deliveryPage(visit: WorkspaceVisit): Promise<PageContent> {
  const { partition, now, query } = visit;
  const course = visit.clean(await ask(visit, 'delivery', { delivery: query.get('id') ?? '' }));
  const { delivery, courses, read, body } = course;
  return {
    title: `Delivery ${delivery.id}`,
    parts: [
      { id: 'done', body: html`${doneNote(visit)}` },
      { id: 'facts', body: factsCard(visit, course) },
      { id: 'read', body: html`${readCard(partition.name, read)}` },
      { id: 'courses', body: waterfall(partition.name, courses, now) },
      { id: 'raw', body: rawCard(read, body) },
    ],
  };
}

function factsCard(visit: WorkspaceVisit, { delivery, verified }: DeliveryTimeline): Markup {
  const { now } = visit;
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
    ? html`<div class="line">${actionForm(visit, { action: 'replay', words: 'Replay', fields: { id }, id: 'replay-one' })}<span class="hint">Judges it again by the present rules; the newest wins as ever.</span></div>`
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
  if (read.outcome === 'ignored')
    return html`<section class="card stack"><h2>What it says</h2><p>Nothing of interest: ${read.reason}</p></section>`;
  if (read.outcome === 'failed')
    return html`<section class="card stack"><h2>What it says</h2><p class="text"><span class="bad">It cannot be read:</span> ${read.message}</p><p class="hint"><a href="${helpOf(read.code)}"><code>${read.code}</code></a></p></section>`;
  if (read.outcome === 'answer')
    return html`<section class="card stack"><h2>What it says</h2><p>The answer to <code>${read.action}</code> of <code>${read.entity}</code></p></section>`;
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
