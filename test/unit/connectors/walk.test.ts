import { describe, expect, it } from 'vitest';
import type { PollPage, PollPosition } from '../../../src/connectors/connector.ts';
import {
  historyPage,
  type ListedPage,
  type ListRequest,
  type Order,
  pollPage,
} from '../../../src/connectors/kit/walk.ts';

/** Watermarks and validators of walks over one page, for any vendor. The laws of the engines show that no change is lost. */

const MINUTE = 60_000;
const NOW = Date.parse('2026-03-01T12:00:00Z');
const { signal } = new AbortController();

interface ListedAges {
  /** When each element of the page was changed, in minutes before now. */
  readonly ages?: readonly number[];
  readonly next?: string;
  /** How far the provider's clock is ahead of ours, milliseconds; absent: the answer has no date. */
  readonly ahead?: number;
  readonly etag?: string;
  readonly isUnchanged?: boolean;
}

/** A list with one page, and the requests for it. */
function walkOver({ ages = [], next, ahead, etag, isUnchanged }: ListedAges, order: Order = 'since') {
  const requests: ListRequest[] = [];
  const headers: Record<string, string> = etag === undefined ? {} : { etag };
  if (ahead !== undefined) headers['date'] = new Date(NOW + ahead).toUTCString();
  const listed: ListedPage = {
    found: ages.map((age) => NOW - age * MINUTE),
    next,
    answer: { headers },
    ...(isUnchanged && { isUnchanged }),
  };
  return {
    requests,
    walk: {
      order,
      isConditional: true,
      list: async (request: ListRequest) => {
        requests.push(request);
        return listed;
      },
      changedAt: (element: unknown) => element as number,
      serialize: async (found: readonly unknown[]) => ({ event: 'list', body: Buffer.from(JSON.stringify(found)) }),
    },
  };
}

const FIRST: PollPosition = { unit: 'acme/api', startedAt: new Date(NOW).toISOString() };
const LATER: PollPosition = { ...FIRST, watermark: new Date(NOW - 60 * MINUTE).toISOString(), etag: '"kept"' };

function pageOf(page: PollPage) {
  if (page.outcome !== 'page') throw new Error(page.outcome);
  const ages = (JSON.parse(page.body.toString()) as number[]).map((time) => (NOW - time) / MINUTE);
  return { ...page, ages };
}

describe('the first walk', () => {
  it.each([
    ['on time', 0, 0],
    ['ahead of ours by an hour', 60 * MINUTE, 0],
    ['behind ours by an hour', -60 * MINUTE, -60 * MINUTE],
    ['not shown', undefined, -10 * MINUTE],
  ])('sets the watermark to its beginning even on an empty page; clock %s', async (_, ahead, start) => {
    const { walk } = walkOver(ahead === undefined ? {} : { ahead });
    const { newest } = pageOf(await pollPage(walk, FIRST, signal));
    expect(Date.parse(newest ?? '')).toBe(NOW + start);
  });

  it('sets the watermark with its first page only, and to no time of an element', async () => {
    const { walk } = walkOver({ ages: [1, 5], ahead: 0, next: '2' });
    expect(pageOf(await pollPage(walk, FIRST, signal))).toMatchObject({ newest: FIRST.startedAt, next: '2' });
    expect(pageOf(await pollPage(walk, { ...FIRST, page: '2' }, signal)).newest).toBeUndefined();
  });

  it('requests open items without a validator, and stores none', async () => {
    const { walk, requests } = walkOver({ ages: [1], etag: '"new"' });
    expect(pageOf(await pollPage(walk, { ...FIRST, etag: '"kept"' }, signal)).etag).toBeUndefined();
    expect(requests).toMatchObject([{ selection: { items: 'open' }, etag: undefined, use: 'poll' }]);
  });
});

describe('a later walk', () => {
  it('requests changes since ten minutes before the watermark', async () => {
    const { walk, requests } = walkOver({ ages: [5] });
    await pollPage(walk, LATER, signal);
    expect(requests).toMatchObject([{ selection: { items: 'changed', since: NOW - 70 * MINUTE, way: 'poll' } }]);
  });

  it("does not move the watermark ahead of the provider's clock", async () => {
    const { walk } = walkOver({ ages: [-24 * 60, 5], ahead: 0 });
    expect(pageOf(await pollPage(walk, LATER, signal)).newest).toBe(new Date(NOW).toISOString());
  });

  it('ends where a list of everything reaches back beyond that time, and stores no older items', async () => {
    const { walk } = walkOver({ ages: [5, 69, 71, 600], next: '2' }, 'newest first');
    const page = pageOf(await pollPage(walk, LATER, signal));
    expect(page.ages).toEqual([5, 69]);
    expect(page.next).toBeUndefined();
    const since = new Date(NOW - 100 * MINUTE).toISOString();
    const history = await historyPage(walk, { unit: 'acme/api', since }, signal);
    expect(JSON.parse(history.body.toString())).toHaveLength(3);
    expect(history.next).toBeUndefined();
  });

  it('sends the validator with its first page only, and ends if nothing changed', async () => {
    const { walk, requests } = walkOver({ isUnchanged: true });
    expect(await pollPage(walk, LATER, signal)).toEqual({ outcome: 'unchanged' });
    const other = walkOver({ ages: [5], etag: '"new"' });
    expect(pageOf(await pollPage(other.walk, { ...LATER, page: '2' }, signal)).etag).toBeUndefined();
    expect([...requests, ...other.requests].map(({ etag }) => etag)).toEqual(['"kept"', undefined]);
  });

  it.each([
    ['of two times', [0, 1], '"new"'],
    ['with one element', [0], '"new"'],
    ['of one time that is over', [5, 5], '"new"'],
    ['of one second that is not over', [0, 0], undefined],
  ])('stores the validator of a first page %s: %s', async (_, ages, kept) => {
    const { walk } = walkOver({ ages, ahead: 0, etag: '"new"' });
    expect(pageOf(await pollPage(walk, LATER, signal)).etag).toBe(kept);
  });
});
