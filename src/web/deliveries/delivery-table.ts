import type { ShownDelivery } from '../../admin/deliveries/deliveries.ts';
import type { DeliveryOrigin, DeliveryState } from '../../model/delivery.ts';
import { html, type Markup } from '../html.ts';
import { itemLink } from '../items/entity-words.ts';
import { chip, dataTable, type Tone, when } from '../pages/fragments.ts';
import { linkTo } from '../pages/page-content.ts';

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
        cell: ({ id, connection, event }) => linkTo(workspace, 'delivery', { id }, `${connection} · ${event}`),
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
