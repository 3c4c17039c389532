import { describe, expect, it } from 'vitest';
import { createRedelivery, type DeliveryList, type FailedAttempt } from '../../../src/connectors/kit/redelivery.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import type { Clock } from '../../../src/platform/lib/clock.ts';

const { signal } = new AbortController();
const DAY = 86_400_000;
const LIMITS = { mostAttempts: 3, mostOfList: 5, mostAtOnce: 8, keptFor: 3 * DAY };

/** A list whose scans find the given attempts, one after the other. */
function listOf(
  name: string,
  scans: readonly (readonly FailedAttempt[] | SyncError)[],
  arrived: readonly string[] = [],
) {
  const resent: string[] = [];
  const froms: (string | undefined)[] = [];
  let outcome: Awaited<ReturnType<DeliveryList['resend']>> = 'requested';
  const rest = [...scans];
  const list: DeliveryList = {
    name,
    async scan(from) {
      froms.push(from);
      const failed = rest.shift() ?? [];
      if (failed instanceof SyncError) throw failed;
      return { failed, arrived: new Set(arrived), upTo: String(froms.length) };
    },
    async resend(attempt) {
      resent.push(attempt);
      return outcome;
    },
  };
  return { list, resent, froms, answer: (next: typeof outcome) => void (outcome = next) };
}

async function round(lists: () => Promise<readonly DeliveryList[]>, cursor: string | undefined, now: number) {
  const clock = { now: () => now, monotonic: () => now } as Clock;
  return createRedelivery(clock, LIMITS, lists)('https://worksync.example/', cursor, signal);
}

async function rounds(lists: readonly DeliveryList[], count: number, from?: string, now = 0) {
  let last = await round(async () => lists, from, now);
  for (let later = 1; later < count; later++) last = await round(async () => lists, last.cursor, now + later);
  return last;
}

const failed = (delivery: string, attempt: string) => ({ delivery, attempt });

describe('a failed delivery', () => {
  it('is requested once, although each scan lists it, and each scan begins where the last one ended', async () => {
    const { list, resent, froms } = listOf('a', [[failed('x', '1')], [failed('x', '1')], []]);
    await rounds([list], 3);
    expect(resent).toEqual(['1']);
    expect(froms).toEqual([undefined, '1', '2']);
  });

  it('is requested after each failure, up to the limit of attempts', async () => {
    const { list, resent } = listOf('a', [
      [failed('x', '1')],
      [failed('x', '2'), failed('x', '1')],
      [failed('x', '3'), failed('x', '2')],
    ]);
    await rounds([list], 4);
    expect(resent).toEqual(['1', '2']);
  });

  it('is not requested if its list shows that it arrived, or reached the limit of attempts', async () => {
    const { list, resent } = listOf(
      'a',
      [[failed('x', '3'), failed('x', '2'), failed('x', '1'), failed('y', '4')]],
      ['y'],
    );
    await rounds([list], 2);
    expect(resent).toEqual([]);
  });

  it('is requested oldest first, at most five of a list in a round', async () => {
    const all = [9, 8, 7, 6, 5, 4, 3].map((each) => failed(`d${each}`, String(each)));
    const { list, resent } = listOf('a', [all]);
    await rounds([list], 2);
    expect(resent).toEqual(['3', '4', '5', '6', '7', '8', '9']);
  });

  it('shares the limit of a round with other lists, and waits if the vendor answers later', async () => {
    const [one, two] = ['a', 'b'].map((name) =>
      listOf(name, [[1, 2, 3, 4, 5].map((each) => failed(`${name}${each}`, `${each}`))]),
    );
    await rounds([one!.list, two!.list], 1);
    expect([one!.resent.length, two!.resent.length]).toEqual([5, 3]);
    const later = listOf('a', [[failed('x', '1'), failed('y', '2')]]);
    later.answer('later');
    expect((await rounds([later.list], 1)).requested).toBe(0);
    expect(later.resent).toEqual(['2']);
  });

  it('is forgotten if the vendor no longer has it, or when it is too old', async () => {
    const { list, resent, answer } = listOf('a', [[failed('x', '1')], [failed('x', '1')]]);
    answer('gone');
    await rounds([list], 2);
    expect(resent).toEqual(['1']);
    const waiting = listOf('a', [[failed('x', '1')]]);
    waiting.answer('later');
    const { cursor } = await rounds([waiting.list], 1);
    waiting.answer('requested');
    await rounds([waiting.list], 1, cursor, 4 * DAY);
    expect(waiting.resent).toEqual(['1']);
  });

  it('is stored among the newest 500, and the round reports that it left out others', async () => {
    const many = Array.from({ length: 2_000 }, (_, at) => failed(`delivery-${2_000 - at}`, String(2_000 - at)));
    const { list, resent } = listOf('a', [many]);
    const { cursor, cut } = await rounds([list], 1);
    expect(resent[0]).toBe('1501');
    expect(cursor.length).toBeLessThan(60_000);
    expect(cut).toMatch(/more than 500/);
  });
});

describe('a round that fails', () => {
  it('returns what it did before the failure', async () => {
    const limited = new SyncError('rate_limited', 'slow');
    const one = listOf('a', [[failed('x', '1')], []]);
    const two = listOf('b', [limited, [failed('y', '2')]]);
    const three = listOf('c', [[failed('z', '3')]]);
    const lists = [one.list, two.list, three.list];
    const first = await round(async () => lists, undefined, 0);
    expect(first).toMatchObject({ requested: 1, failure: limited });
    await round(async () => lists, first.cursor, 1);
    expect([one.resent, two.resent, three.resent]).toEqual([['1'], ['2'], ['3']]);
  });

  it('continues after a hook that no longer exists', async () => {
    const gone = new SyncError('not_found', 'no such hook');
    const two = listOf('b', [[failed('y', '2')]]);
    expect(await rounds([listOf('a', [gone]).list, two.list], 1)).toMatchObject({ requested: 1, failure: gone });
  });

  it('keeps the cursor if the hooks cannot be listed', async () => {
    const failure = new SyncError('unreachable', 'nobody there');
    const result = await round(async () => Promise.reject(failure), '[]', 0);
    expect(result).toEqual({ requested: 0, cursor: '[]', failure });
  });

  it.each(['', '{', '{"a":1}', '[{"name":1}]', 'null'])('begins anew with the unreadable cursor %j', async (cursor) => {
    const { list, froms } = listOf('a', []);
    await rounds([list], 1, cursor);
    expect(froms).toEqual([undefined]);
  });
});
