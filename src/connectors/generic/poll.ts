import { z } from 'zod';
import { workItemKey } from '../../model/item.ts';
import type { HistoryPage, HistoryPosition, PollPage, PollPosition, SweepPage } from '../connector.ts';
import { absent } from '../kit/fields.ts';
import { writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, OVERLAP, timeOf } from '../kit/turns.ts';
import { type Feed, page, readPage } from './feed.ts';
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
 * One page of a walk over the feed. With a watermark: what was changed since then less the overlap. Without one, the
 * first walk: what is not done; its watermark starts no earlier than the walk. In which order they come is the feed's
 * business: what it promises is that an item which matches all the while is on some page.
 */
export async function pollItems(feed: Feed, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const { watermark, page: cursor } = position;
  const wanted = { path: PATH, query: queryOf(watermark), cursor, shape: LISTED };
  const { found, next, answer } = await readPage(feed, wanted, signal);
  const times = found.items.map((each) => timeOf(each, 'updatedAt'));
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: writeJson(found.items),
    ...(next === undefined ? {} : { next }),
    newest: watermark === undefined ? firstWalkStart(position, answer) : newest(times, answer),
  };
}

function queryOf(watermark: string | undefined): Record<string, string> {
  if (watermark === undefined) return { done: 'false' };
  return { updatedSince: new Date(Date.parse(watermark) - OVERLAP).toISOString() };
}

/** One page of everything that was changed since a time. */
export async function historyOfItems(feed: Feed, position: HistoryPosition, signal: AbortSignal): Promise<HistoryPage> {
  const { since, page: cursor } = position;
  const query: Record<string, string> = since === undefined ? {} : { updatedSince: new Date(since).toISOString() };
  const { found, next } = await readPage(feed, { path: PATH, query, cursor, shape: LISTED }, signal);
  return {
    event: SHAPES.list,
    body: writeJson(found.items),
    ...(next === undefined ? {} : { next }),
    ...(found.total === undefined ? {} : { total: found.total }),
  };
}

const IDS = page.extend({ ids: z.array(id), projects: z.array(id) });

/** One page of the ids of all that exists. */
export async function sweepItems(
  feed: Feed,
  system: string,
  cursor: string | undefined,
  signal: AbortSignal,
): Promise<SweepPage> {
  const { found, next } = await readPage(feed, { path: '/ids', query: {}, cursor, shape: IDS }, signal);
  const keys = found.ids.map((each) => workItemKey('generic', system, each));
  return { keys, containers: found.projects, ...(next === undefined ? {} : { next }) };
}
