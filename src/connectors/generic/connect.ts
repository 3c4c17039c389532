import { type ZodType, z } from 'zod';
import { asSyncError } from '../../model/errors.ts';
import { workItemKey } from '../../model/item.ts';
import type { Connection, ConnectionDeps, Finding, SweepPage } from '../connector.ts';
import { findingsOf } from '../kit/findings.ts';
import { locatorOf } from '../kit/items.ts';
import { absent, omitUndefined, writeJson } from '../kit/payload.ts';
import type { Refusals } from '../kit/refusal.ts';
import { bearer, createRest, type Rest } from '../kit/rest.ts';
import {
  emptyPageFlag,
  historyPage,
  nextPage,
  pollPage,
  type Selection,
  storedPage,
  timeOf,
  type WalkableList,
} from '../kit/walk.ts';
import { feedBase, type Options } from './options.ts';
import { id } from './schema.ts';
import { PARTS, SHAPES } from './translate.ts';

const refusals: Refusals = { shortest: 60_000 };

/** The one unit: the whole feed. */
const UNIT = 'items';

/** Opaque, and sent back unchanged: a text that looks like an address is none. */
const CURSOR = /^[\w.=~+-]{1,1000}$/;

/** The field of every page; absent or null on the last one. */
const page = z.object({ nextCursor: z.string().nullish() });
const listed = page.extend({
  items: z.array(z.unknown()),
  total: absent(z.int().min(0)),
});
const ids = page.extend({ ids: z.array(id), projects: z.array(id) });

/** The feed of one connection, if one is configured. */
export function connect(options: Options, deps: ConnectionDeps): Connection {
  const base = feedBase(options);
  if (base === undefined) return withoutFeed;
  const feed = createRest({ target: 'generic', base, headers: bearer(options.token), refusals }, deps);
  const walk = walkOf(feed);
  const proved = (subject: string, read: () => Promise<unknown>) =>
    findingsOf(subject, async () => {
      await read();
      return [{ level: 'ok', subject, message: `${subject === 'feed' ? 'items' : subject} can be read` }];
    });

  async function sweep(cursor: string | undefined, signal: AbortSignal): Promise<SweepPage> {
    const { found, next } = await readPage(feed, ids, '/ids', {}, cursor, signal);
    const keys = found.ids.map((each) => workItemKey('generic', options.system, each));
    return { keys, containers: found.projects, ...omitUndefined({ next }), ...emptyPageFlag({ found: keys, next }) };
  }

  return {
    units: async () => [UNIT],
    poll: (position, signal) => pollPage(walk, position, signal),
    history: (position, signal) => historyPage(walk, position, signal),
    sweep: (_unit, cursor, signal) => sweep(cursor, signal),
    /** 410 shows that the item is gone; 404 proves nothing, because a lost right may look the same. */
    async fetch(reference, signal) {
      const { id: itemId, container, identifier } = locatorOf(PARTS, reference);
      try {
        const { content } = await feed.get(`/items/${itemId}`, {}, signal, true);
        return { event: SHAPES.item, body: writeJson(content) };
      } catch (thrown) {
        const error = asSyncError(thrown);
        if (error.status !== 410) throw error;
        const seenAt = new Date(deps.clock.now()).toISOString();
        return { event: SHAPES.gone, body: writeJson({ id: itemId, project: { id: container }, identifier, seenAt }) };
      }
    },
    async check(signal) {
      const first = { unit: UNIT, startedAt: new Date(0).toISOString() };
      const ofFeed = await proved('feed', () => pollPage(walk, first, signal));
      return [...ofFeed, ...(await proved('ids', () => sweep(undefined, signal)))];
    },
  };
}

const noFeed: Finding = {
  level: 'warning',
  subject: 'feed',
  message: 'none: worksync never sees what no webhook brings',
  hint: 'Offer a feed as the README of this connector describes it, and set feedUrl.',
};

/** A connection without a feed: only webhooks change its items. */
const withoutFeed: Connection = {
  units: async () => [],
  poll: async () => ({ outcome: 'unchanged' }),
  async fetch(reference) {
    locatorOf(PARTS, reference);
    return { event: SHAPES.unknown, body: writeJson({}) };
  },
  check: async () => [noFeed],
};

/**
 * Walks over the feed. The feed chooses the order of items: it promises only that an item which matches throughout is on some
 * page.
 */
function walkOf(feed: Rest): WalkableList {
  return {
    order: 'since',
    async list({ selection, page: cursor }, signal) {
      const { found, next, answer } = await readPage(feed, listed, '/items', queryOf(selection), cursor, signal);
      return { found: found.items, next, answer, total: found.total };
    },
    changedAt: (item) => timeOf(item, 'updatedAt'),
    serialize: async (found) => ({ event: SHAPES.list, body: writeJson(found) }),
  };
}

function queryOf(selection: Selection): Record<string, string> {
  if (selection.items === 'open') return { done: 'false' };
  if (selection.items === 'ids' || selection.since === undefined) return {};
  return { updatedSince: new Date(selection.since).toISOString() };
}

/** One page of a list of the feed. Throws `answer_malformed`. */
async function readPage<Page extends z.infer<typeof page>>(
  feed: Rest,
  shape: ZodType<Page>,
  path: string,
  query: Readonly<Record<string, string>>,
  given: string | undefined,
  signal: AbortSignal,
) {
  const cursor = storedPage(given, CURSOR);
  const wanted = { ...query, ...(cursor !== undefined && { cursor }) };
  const { content: found, answer } = await feed.read(shape, path, wanted, signal, true);
  const { nextCursor } = found;
  const isLast = nextCursor === undefined || nextCursor === null;
  return { found, next: isLast ? undefined : nextPage(nextCursor, CURSOR, cursor, `GET ${path}`), answer };
}
