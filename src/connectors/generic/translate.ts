import { z } from 'zod';
import type { Delivery } from '../../model/delivery.ts';
import type { WorkItem } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { closingOf, identityOf, NOT_FOLLOWED, outOfScope } from '../kit/items.ts';
import { omitUndefined, read, readable, readJson, sorted } from '../kit/payload.ts';
import { inScope } from '../kit/scope.ts';
import { EVENT_IN_BODY } from '../kit/verify.ts';
import { type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** The connector's own names of the bodies of polls and fetches. */
export const SHAPES = { list: 'items.list', item: 'items.get', gone: 'items.gone', unknown: 'items.unknown' } as const;

type Translator = (payload: unknown, options: Options) => Translation;

const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['item.created', itemUpdated],
  ['item.updated', itemUpdated],
  ['item.deleted', itemDeleted],
]);

/** Pages and fetched objects were requested, so they are in scope. */
const OF_READ: ReadonlyMap<string, Translator> = new Map([
  [SHAPES.list, list],
  [SHAPES.item, fetched],
  [SHAPES.gone, gone],
]);

export function translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation {
  if (delivery.source === 'webhook') {
    if (delivery.event !== EVENT_IN_BODY) return NOT_FOLLOWED;
    const payload = readJson(delivery.body);
    const { type } = read(schema.event, payload);
    return OF_WEBHOOK.get(type)?.(payload, options) ?? NOT_FOLLOWED;
  }
  if (delivery.event === SHAPES.unknown) return { outcome: 'ignored', reason: 'no_feed_to_ask' };
  const translateIt = OF_READ.get(delivery.event);
  return translateIt ? translateIt(readJson(delivery.body), options) : NOT_FOLLOWED;
}

export function eventOf(payload: unknown): string | undefined {
  const named = readable(schema.event, payload);
  return named && OF_WEBHOOK.has(named.type) ? EVENT_IN_BODY : undefined;
}

/** The parts that identify items, and their names in rows; an item that is gone needs all of them. */
export const PARTS = {
  id: 'generic',
  itemId: { shape: schema.id, locator: 'id', gone: 'id' },
  containerId: { shape: schema.id, locator: 'projectId', gone: 'project' },
  identifier: { shape: z.string().regex(/^[^/?%]{1,200}$/), locator: 'identifier', gone: 'identifier' },
} as const;

function itemUpdated(payload: unknown, options: Options): Translation {
  const { data } = read(schema.itemUpdated, payload);
  const sent = (payload as { data: unknown }).data;
  return notInScope(data.project, options, itemOf(data, options)) ?? itemsOf([{ item: data, sent }], options);
}

function itemDeleted(payload: unknown, options: Options): Translation {
  const { data, timestamp } = read(schema.itemDeleted, payload);
  const updatedAt = Math.max(Date.parse(timestamp), Date.parse(data.updatedAt ?? timestamp));
  const item = { ...identity(data, options), updatedAt, gone: true };
  return notInScope(data.project, options) ?? { outcome: 'items', items: [item] };
}

function list(payload: unknown, options: Options): Translation {
  const all = read(schema.item.array(), payload).map((item, at) => ({ item, sent: (payload as unknown[])[at] }));
  return itemsOf(
    all.filter(({ item }) => !notInScope(item.project, options)),
    options,
  );
}

function fetched(payload: unknown, options: Options): Translation {
  return itemsOf([{ item: read(schema.item, payload), sent: payload }], options);
}

function gone(payload: unknown, options: Options): Translation {
  const { seenAt, ...found } = read(schema.gone, payload);
  return { outcome: 'items', items: [{ ...identity(found, options), updatedAt: Date.parse(seenAt), gone: true }] };
}

/** @param all each item, and the item as it was sent, including the fields that could not be read */
function itemsOf(all: readonly { item: schema.GenericItem; sent: unknown }[], options: Options): Translation {
  const unread = all.flatMap(({ item, sent }) =>
    Object.entries(sent as object).flatMap(([name, value]) =>
      name in schema.item.shape && value !== undefined && item[name as keyof typeof item] === undefined ? name : [],
    ),
  );
  const found = { outcome: 'items', items: all.map(({ item }) => itemOf(item, options)) } as const;
  return unread.length === 0 ? found : { ...found, unread: [...new Set(unread)].sort() };
}

function notInScope(
  { id, name }: schema.GenericItem['project'],
  options: Options,
  item?: WorkItem,
): Translation | undefined {
  return inScope({ id, name: name ?? id }, scopeOf(options)) ? undefined : outOfScope('project', item);
}

function itemOf(found: schema.GenericItem, options: Options): WorkItem {
  const { id, project, identifier, updatedAt, labels, assignees, description, isDropped, closedAt, ...plain } = found;
  return {
    ...identity({ id, project, identifier }, options),
    updatedAt: Date.parse(updatedAt),
    ...omitUndefined({
      ...plain,
      ...closingOf(found.state, { isDropped, closedAt }),
      containerName: project.name,
      // An empty text means the same as null.
      description: description === '' ? null : description,
      labels: sorted(labels),
      assignees: sorted(assignees),
    }),
  };
}

function identity(
  { id, project, identifier }: Pick<schema.GenericItem, 'id' | 'project' | 'identifier'>,
  given: Options,
) {
  return identityOf('generic', given.system, { id, container: project.id, identifier });
}
