import { describe, expect, it } from 'vitest';
import { type DeliveryList, type FailedAttempt, redeliverFailed } from '../../../../src/connectors/kit/redelivery.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';

const { signal } = new AbortController();
const DAY = 86_400_000;
const LIMITS = { mostAttempts: 3, mostOfList: 5, mostAtOnce: 8, keptFor: 3 * DAY };

/** A list whose looks find what the test says, in turn. */
function listOf(
  name: string,
  looks: readonly (readonly FailedAttempt[] | SyncError)[],
  arrived: readonly string[] = [],
) {
  const asked: string[] = [];
  const froms: (string | undefined)[] = [];
  let outcome: 'asked' | 'gone' | 'later' = 'asked';
  const rest = [...looks];
  const list: DeliveryList = {
    name,
    async scan(from) {
      froms.push(from);
      const failed = rest.shift() ?? [];
      if (failed instanceof SyncError) throw failed;
      return { failed, arrived: new Set(arrived), upTo: String(froms.length) };
    },
    async resend(attempt) {
      asked.push(attempt);
      return outcome;
    },
  };
  return { list, asked, froms, answer: (next: typeof outcome) => void (outcome = next) };
}

async function rounds(lists: readonly DeliveryList[], count: number, from?: string, now = 0) {
  let cursor = from;
  let last = await redeliverFailed(async () => lists, cursor, LIMITS, now, signal);
  for (let round = 1; round < count; round++) {
    cursor = last.cursor;
    last = await redeliverFailed(async () => lists, cursor, LIMITS, now + round, signal);
  }
  return last;
}

const failed = (delivery: string, attempt: string) => ({ delivery, attempt });

describe('what failed', () => {
  it('is requested once, however often it is listed, and each look continues where the last one ended', async () => {
    const { list, asked, froms } = listOf('a', [[failed('x', '1')], [failed('x', '1')], []]);
    await rounds([list], 3);
    expect(asked).toEqual(['1']);
    expect(froms).toEqual([undefined, '1', '2']);
  });

  it('is requested again after each failure, until it was sent often enough', async () => {
    const { list, asked } = listOf('a', [
      [failed('x', '1')],
      [failed('x', '2'), failed('x', '1')],
      [failed('x', '3'), failed('x', '2')],
    ]);
    await rounds([list], 4);
    expect(asked).toEqual(['1', '2']);
  });

  it('is not requested where its list shows that it was sent often enough, or arrived', async () => {
    const { list, asked } = listOf(
      'a',
      [[failed('x', '3'), failed('x', '2'), failed('x', '1'), failed('y', '4')]],
      ['y'],
    );
    await rounds([list], 2);
    expect(asked).toEqual([]);
  });

  it('is requested oldest first, a few at a time; the rest waits for the next round', async () => {
    const all = [9, 8, 7, 6, 5, 4, 3].map((each) => failed(`d${each}`, String(each)));
    const { list, asked } = listOf('a', [all]);
    await rounds([list], 2);
    expect(asked).toEqual(['3', '4', '5', '6', '7', '8', '9']);
  });

  it('shares a round with the other lists', async () => {
    const [one, two] = ['a', 'b'].map((name) =>
      listOf(name, [[1, 2, 3, 4, 5].map((each) => failed(`${name}${each}`, `${each}`))]),
    );
    await rounds([one!.list, two!.list], 1);
    expect([one!.asked.length, two!.asked.length]).toEqual([5, 3]);
    const later = listOf('a', [[failed('x', '1'), failed('y', '2')]]);
    later.answer('later');
    expect((await rounds([later.list], 1)).asked).toBe(0);
    expect(later.asked).toEqual(['2']);
  });

  it('is forgotten when the vendor no longer has it, and when it is too old', async () => {
    const { list, asked, answer } = listOf('a', [[failed('x', '1')], [failed('x', '1')]]);
    answer('gone');
    await rounds([list], 2);
    expect(asked).toEqual(['1']);
    const waiting = listOf('a', [[failed('x', '1')]]);
    waiting.answer('later');
    const { cursor } = await rounds([waiting.list], 1);
    waiting.answer('asked');
    await rounds([waiting.list], 1, cursor, 4 * DAY);
    expect(waiting.asked).toEqual(['1']);
  });

  it('is remembered up to a bound, the newest first, and the round says that it left some out', async () => {
    const many = Array.from({ length: 2_000 }, (_, at) => failed(`delivery-${2_000 - at}`, String(2_000 - at)));
    const { list, asked } = listOf('a', [many]);
    const { cursor, cut } = await rounds([list], 1);
    expect(asked[0]).toBe('1501');
    expect(cursor.length).toBeLessThan(60_000);
    expect(cut).toMatch(/more than 500/);
  });
});

describe('a round that ends early', () => {
  it('keeps what was done until then', async () => {
    const limited = new SyncError('rate_limited', 'slow');
    const one = listOf('a', [[failed('x', '1')], []]);
    const two = listOf('b', [limited, [failed('y', '2')]]);
    const three = listOf('c', [[failed('z', '3')]]);
    const lists = [one.list, two.list, three.list];
    const first = await redeliverFailed(async () => lists, undefined, LIMITS, 0, signal);
    expect(first).toMatchObject({ asked: 1, failure: limited });
    await redeliverFailed(async () => lists, first.cursor, LIMITS, 1, signal);
    expect([one.asked, two.asked, three.asked]).toEqual([['1'], ['2'], ['3']]);
  });

  it('goes on past a hook that no longer exists', async () => {
    const gone = new SyncError('not_found', 'no such hook');
    const two = listOf('b', [[failed('y', '2')]]);
    expect(await rounds([listOf('a', [gone]).list, two.list], 1)).toMatchObject({ asked: 1, failure: gone });
  });

  it('keeps its place where not even the lists can be read', async () => {
    const failure = new SyncError('unreachable', 'nobody there');
    const told = await redeliverFailed(async () => Promise.reject(failure), '[]', LIMITS, 0, signal);
    expect(told).toEqual({ asked: 0, cursor: '[]', failure });
  });

  it.each(['', '{', '{"a":1}', '[{"name":1}]', 'null'])(
    'a cursor that reads %j is that of the first day',
    async (cursor) => {
      const { list, froms } = listOf('a', []);
      await rounds([list], 1, cursor);
      expect(froms).toEqual([undefined]);
    },
  );
});
