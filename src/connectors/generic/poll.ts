import { z } from 'zod';
import { workItemKey } from '../../model/item.ts';
import type { SweepPage } from '../connector.ts';
import { absent } from '../kit/fields.ts';
import { writeJson } from '../kit/json.ts';
import type { Rest } from '../kit/rest.ts';
import { timeOf } from '../kit/turns.ts';
import type { Selection, Walk } from '../kit/walk.ts';
import { page, readPage } from './feed.ts';
import { id } from './schema.ts';
import { SHAPES } from './translate.ts';

/** The whole feed is listed as one. */
export const UNIT = 'items';

const PATH = '/items';
const LISTED = page.extend({
  items: z.array(z.unknown()),
  /** How many there are in all, where the feed tells. */
  total: absent(z.int().min(0)),
});

/**
 * Walks over the feed. The feed chooses the order of items: it promises only that an item which matches throughout is on some
 * page.
 */
export function walkOf(feed: Rest): Walk {
  return {
    order: 'since',
    async list({ selection, page: cursor }, signal) {
      const wanted = { path: PATH, query: queryOf(selection), cursor, shape: LISTED };
      const { found, next, answer } = await readPage(feed, wanted, signal);
      return { found: found.items, next, answer, total: found.total };
    },
    changedAt: (item) => timeOf(item, 'updatedAt'),
    write: async (found) => ({ event: SHAPES.list, body: writeJson(found) }),
  };
}

function queryOf(selection: Selection): Record<string, string> {
  if (selection.items === 'open') return { done: 'false' };
  if (selection.items === 'ids' || selection.since === undefined) return {};
  return { updatedSince: new Date(selection.since).toISOString() };
}

const IDS = page.extend({ ids: z.array(id), projects: z.array(id) });

/** One page of the ids of all that exists. */
export async function sweepItems(
  feed: Rest,
  system: string,
  cursor: string | undefined,
  signal: AbortSignal,
): Promise<SweepPage> {
  const { found, next } = await readPage(feed, { path: '/ids', query: {}, cursor, shape: IDS }, signal);
  const keys = found.ids.map((each) => workItemKey('generic', system, each));
  return { keys, containers: found.projects, ...(next === undefined ? {} : { next }) };
}
