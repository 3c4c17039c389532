import type { DeliveryPage, WantedDeliveries } from '../../admin/deliveries.ts';
import { DELIVERY_STATES } from '../../model/delivery.ts';
import { count } from '../../platform/lib/quantities.ts';
import { html, type Markup } from '../html.ts';
import { when } from '../moment.ts';
import { choiceOf, numberOf } from './choices.ts';
import { fieldsOf, wantedOf } from './delivery-filter.ts';
import { deliveryTable } from './delivery-table.ts';
import { actionForm, doneNote } from './page-actions.ts';
import { ask, mayAct, type PageContent, pathOf, type WorkspaceVisit } from './page-content.ts';
import { note } from './problem-content.ts';
import { refusedTable } from './refused-table.ts';

const SHOWN = 50;
const REFUSED_SHOWN = 50;

/** The page of the deliveries, with a search, and of the refused requests. */
export async function deliveriesPage(visit: WorkspaceVisit): Promise<PageContent> {
  const { query } = visit;
  const wanted = wantedOf(query);
  const wish = { ...wanted, limit: SHOWN, before: numberOf(query, 'before') ?? undefined };
  const page = visit.clean(await ask(visit, 'deliveries', wish));
  const refused = visit.clean(await ask(visit, 'refused', { limit: REFUSED_SHOWN }));
  return {
    title: 'Deliveries',
    parts: [
      { id: 'done', body: html`${doneNote(visit)}` },
      { id: 'search', body: filterForm(visit, wanted), isForm: true },
      { id: 'replay', body: html`${await replayPreview(visit, wanted)}` },
      { id: 'list', body: list(visit, wanted, page) },
      { id: 'refused', body: refusedTable(refused, visit.now) },
    ],
  };
}

function filterForm({ partition }: WorkspaceVisit, wanted: WantedDeliveries): Markup {
  const names = partition.connections.map(({ name }) => name);
  return html`<form class="card filters" method="get" role="search"><label class="whole">Vendor’s id, our number, or an item such as owner/repo#12
<input type="search" name="about" value="${wanted.about ?? ''}"></label>
${choiceOf({ title: 'State', name: 'state', values: DELIVERY_STATES, chosen: wanted.state })}
${choiceOf({ title: 'Connection', name: 'connection', values: names, chosen: wanted.connection })}
<label class="tick"><input type="checkbox" name="own" value="yes"${wanted.own ? html` checked` : null}>own answers too</label>
<button>Search</button>${Object.keys(fieldsOf(wanted)).length === 0 ? null : html`<a class="button" href="${pathOf(partition.name, 'deliveries')}">Show all</a>`}</form>`;
}

function list(
  visit: WorkspaceVisit,
  wanted: WantedDeliveries,
  { deliveries, next, lookedBackTo }: DeliveryPage,
): Markup {
  const { partition, now, query } = visit;
  const older = next === null ? null : pathOf(partition.name, 'deliveries', { ...fieldsOf(wanted), before: next });
  const isLater = query.get('before') !== undefined;
  const replayLink =
    mayAct(visit) && deliveries.length > 0 && query.get('preview') === undefined
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
async function replayPreview(visit: WorkspaceVisit, wanted: WantedDeliveries): Promise<Markup | null> {
  if (visit.query.get('preview') !== 'replay' || !mayAct(visit)) return null;
  const { replayed, purged, own, more } = await ask(visit, 'replay', { ...wanted, preview: true });
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
        : actionForm(visit, {
            ...{
              action: 'replay',
              words: `Replay ${count(replayed)}`,
              fields: fieldsOf(wanted),
              look: 'main',
              id: 'replay-all',
            },
          })
    }<a class="button" href="${pathOf(visit.partition.name, 'deliveries', fieldsOf(wanted))}">Back</a></div>`,
  );
}
