import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CHANGE_STATES } from '../../../src/model/change.ts';
import {
  clampChangeTimes,
  type Eligibility,
  firstDueTimes,
  nextChange,
  nextDue,
  nextLive,
} from '../../../src/store/next-change.ts';
import {
  addDifference,
  type Difference,
  findChange,
  type OutboxRow,
  updateChange,
} from '../../../src/store/outbox-rows.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { drawn } from '../../support/harness/depth.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const NOW = 10_000_000;
const EVERY: Eligibility = { now: NOW, onlyReads: false };

const difference = (fields: Partial<Difference> = {}): Difference => ({
  entity: 'pull_request:a',
  kind: 'pull_request',
  lane: 'mirror',
  since: NOW - 5_000,
  due: NOW - 3_000,
  weight: 1,
  waiting: [],
  ...fields,
});

describe('the next change to send', () => {
  const S = 1_000;
  const at = (since: number, due: number, weight = 1) => ({ since: NOW - since * S, due: NOW - due * S, weight });
  it.each<[rule: string, rows: readonly Partial<Difference>[], next: string | undefined]>([
    ['nothing', [], undefined],
    ['nothing is due', [{ entity: 'a', ...at(1, -1) }], undefined],
    ['due now', [{ entity: 'a', ...at(2, 0) }], 'a'],
    [
      'overdue the longest',
      [
        { entity: 'a', ...at(5, 3) },
        { entity: 'b', ...at(9, 7) },
        { entity: 'c', ...at(6, 4) },
      ],
      'b',
    ],
    [
      'due first, though another differs for longer',
      [
        { entity: 'a', ...at(20, 5) },
        { entity: 'b', ...at(9, 7) },
      ],
      'b',
    ],
    [
      'the age of a finished item counts a tenth more',
      [
        { entity: 'a', ...at(110, 105) },
        { entity: 'b', ...at(102, 100, 2) },
      ],
      'b',
    ],
    [
      'but no more than a tenth',
      [
        { entity: 'a', ...at(130, 120) },
        { entity: 'b', ...at(102, 100, 2) },
      ],
      'a',
    ],
    [
      'a link, though a mirror waits longer, while a status change is due',
      [
        { entity: 'a', ...at(900, 800) },
        { entity: 'b', ...at(9, 7), lane: 'link' },
        { entity: 'c', ...at(700, 600), lane: 'status', kind: 'task_update' },
      ],
      'b',
    ],
    [
      'a status change that is due before mirrors, of finished items too',
      [
        { entity: 'a', ...at(900, 800) },
        { entity: 'b', ...at(900, 800, 2) },
        { entity: 'c', ...at(3, 0, 2), lane: 'status', kind: 'task_update' },
      ],
      'c',
    ],
    [
      'the change that waits longest while no status change is due',
      [
        { entity: 'a', ...at(9, 7), lane: 'link' },
        { entity: 'b', ...at(900, 800) },
        { entity: 'c', ...at(3, -1), lane: 'status', kind: 'task_update' },
      ],
      'b',
    ],
    [
      'a backfill only if nothing else is due',
      [
        { entity: 'a', ...at(900, 800), lane: 'backfill' },
        { entity: 'b', ...at(3, 1) },
      ],
      'b',
    ],
    [
      'a backfill before a change that is not due yet',
      [
        { entity: 'a', ...at(900, 800), lane: 'backfill' },
        { entity: 'b', ...at(3, -1) },
      ],
      'a',
    ],
    [
      'a read of a backfill only if nothing else is due',
      [
        { entity: 'read:tasks', kind: 'read', ...at(900, 800), lane: 'backfill' },
        { entity: 'b', ...at(3, 1) },
      ],
      'b',
    ],
    [
      'by name if all else is equal',
      [
        { entity: 'b', ...at(5, 3) },
        { entity: 'a', ...at(5, 3) },
      ],
      'a',
    ],
    ['not before its time', [{ entity: 'a', ...at(5, 3), notBefore: NOW + 1 }], undefined],
    ['from its time on', [{ entity: 'a', ...at(5, 3), notBefore: NOW }], 'a'],
  ])('%s', async (_rule, rows, next) => {
    const { query } = await openTestStore();
    for (const row of rows) await addDifference(query, difference(row));
    expect((await nextChange(query, EVERY))?.entity).toBe(next);
  });

  it.each(['sending', 'unknown', 'held'] as const)('is not in the state %s', async (state) => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    await updateChange(query, 'pull_request:a', { state });
    expect(await nextChange(query, EVERY)).toBeUndefined();
    expect(await nextDue(query, EVERY)).toBeUndefined();
  });

  it('is a read while the content of the workspace is not known', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ ...at(99, 97) }));
    await addDifference(query, difference({ entity: 'read:tasks', kind: 'read', lane: 'read' }));
    expect((await nextChange(query, { now: NOW, onlyReads: true }))?.entity).toBe('read:tasks');
    expect((await nextChange(query, EVERY))?.entity).toBe('pull_request:a');
  });
});

describe('the time of the next change', () => {
  it('is undefined if none is pending', async () => {
    const { query } = await openTestStore();
    expect(await nextDue(query, EVERY)).toBeUndefined();
  });

  it('is now, with the lane of the change that is ready', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    expect(await nextDue(query, EVERY)).toEqual({
      entity: 'pull_request:a',
      at: NOW,
      due: NOW - 3_000,
      lane: 'mirror',
    });
  });

  it('is the earliest of due times and pauses', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ entity: 'a', due: NOW + 9_000 }));
    await addDifference(query, difference({ entity: 'b', due: NOW + 1_000, notBefore: NOW + 7_000, lane: 'link' }));
    expect(await nextDue(query, EVERY)).toMatchObject({ at: NOW + 7_000, due: NOW + 1_000, lane: 'link' });
  });

  it('considers only reads while only reads may be sent', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    await addDifference(query, difference({ entity: 'read:tasks', kind: 'read', lane: 'read', due: NOW + 4_000 }));
    expect(await nextDue(query, { now: NOW, onlyReads: true })).toMatchObject({ at: NOW + 4_000, lane: 'read' });
  });
});

describe('the next change while all requests fail', () => {
  it('is one that never failed, or the one that failed longest ago', async () => {
    const { query } = await openTestStore();
    for (const [index, entity] of ['a', 'b', 'c'].entries()) {
      await addDifference(query, difference({ entity, due: NOW - 1_000 * (9 - index) }));
    }
    await updateChange(query, 'a', { not_before: NOW - 1 });
    await updateChange(query, 'b', { not_before: NOW - 2 });
    const turn = { ...EVERY, retriesLast: true };
    expect((await nextChange(query, turn))?.entity).toBe('c');
    await updateChange(query, 'c', { not_before: NOW });
    expect((await nextChange(query, turn))?.entity).toBe('b');
    expect((await nextChange(query, EVERY))?.entity).toBe('a');
  });
});

describe('changes of several queues, one of which has failed', () => {
  it('are ordered by age, or by their pauses while all requests fail', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ entity: 'read', kind: 'read', lane: 'read', due: NOW - 9_000 }));
    await addDifference(query, difference({ entity: 'write', due: NOW - 1_000 }));
    await updateChange(query, 'read', { not_before: NOW - 1 });
    expect((await nextChange(query, EVERY))?.entity).toBe('read');
    expect((await nextChange(query, { ...EVERY, retriesLast: true }))?.entity).toBe('write');
  });
});

describe('a lead time', () => {
  it('makes changes ready earlier, and shortens the wait for them', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ due: NOW + 5_000 }));
    expect(await nextChange(query, EVERY)).toBeUndefined();
    expect(await nextDue(query, { ...EVERY, leadTime: 2_000 })).toMatchObject({ at: NOW + 3_000 });
    expect((await nextChange(query, { ...EVERY, leadTime: 5_000 }))?.entity).toBe('pull_request:a');
  });

  it('is computed from the due times of live changes', async () => {
    const { query } = await openTestStore();
    for (let each = 0; each < 5; each++) {
      await addDifference(query, difference({ entity: `a${each}`, due: NOW + each, weight: 1 + (each % 2) }));
      await addDifference(query, difference({ entity: `b${each}`, due: each, lane: 'backfill' }));
    }
    expect(await firstDueTimes(query, 3)).toEqual([NOW, NOW + 1, NOW + 2]);
  });
});

describe('a wall clock that was set back', () => {
  it('makes no change wait until the old time comes again', async () => {
    const { query } = await openTestStore();
    const later = NOW + 86_400_000;
    await addDifference(query, difference({ entity: 'a', since: later, due: later + 2_000 }));
    await addDifference(query, difference({ entity: 'b', notBefore: later }));
    await addDifference(query, difference({ entity: 'c', notBefore: NOW + 900_000 }));
    await addDifference(query, difference({ entity: 'd', due: NOW + 1_000 }));
    expect(await clampChangeTimes(query, NOW)).toBe(2);
    expect(await clampChangeTimes(query, NOW)).toBe(0);
    expect((await nextChange(query, EVERY))?.entity).toBe('b');
    await updateChange(query, 'b', { state: 'sending' });
    expect((await nextChange(query, EVERY))?.entity).toBe('a');
    await updateChange(query, 'a', { state: 'sending' });
    expect(await nextDue(query, EVERY)).toMatchObject({ entity: 'd', at: NOW + 1_000 });
  });
});

describe('a wall clock that was set back while a change cannot be sent', () => {
  const LATER = NOW + 86_400_000;

  it.each(CHANGE_STATES)('does not make a change in the state %s wait for the old time', async (state) => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ entity: 'a', since: LATER, due: LATER + 2_000, notBefore: LATER }));
    await updateChange(query, 'a', { state });
    await clampChangeTimes(query, NOW);
    await updateChange(query, 'a', { state: 'pending' });
    expect(await nextDue(query, EVERY)).toMatchObject({ entity: 'a', at: NOW });
  });

  it.each(['sending', 'unknown'] as const)('does not make a difference during the state %s wait', async (state) => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ entity: 'a' }));
    await updateChange(query, 'a', { state });
    await addDifference(query, difference({ entity: 'a', since: LATER, due: LATER }));
    await clampChangeTimes(query, NOW);
    expect(await findChange(query, 'a')).toMatchObject({ next_since: NOW });
  });
});

describe('any pending changes', () => {
  const row = fc.record({
    lane: fc.constantFrom<OutboxRow['lane'][]>('mirror', 'link', 'status', 'read', 'backfill'),
    isRead: fc.boolean(),
    age: fc.integer({ min: -9, max: 20 }),
    weight: fc.constantFrom(1, 2),
    pause: fc.constantFrom(-5, 0, 0, 0, 3, 8),
    state: fc.constantFrom<OutboxRow['state'][]>('pending', 'pending', 'pending', 'held'),
  });

  /** Computes the same result by a scan of all rows. */
  function searched(rows: readonly OutboxRow[], { onlyReads, onlyWrites, retriesLast, leadTime = 0 }: Eligibility) {
    const isBackfill = ({ lane }: OutboxRow) => lane === 'backfill';
    const waiting = rows.filter((each) => {
      const isRead = each.kind === 'read';
      return each.state === 'pending' && !(onlyReads && (!isRead || isBackfill(each))) && !(onlyWrites && isRead);
    });
    const ready = waiting.filter(({ due, not_before }) => due <= NOW + leadTime && not_before <= NOW);
    const live = ready.filter((each) => !isBackfill(each));
    const isMirror = ({ lane, kind }: OutboxRow) => lane === 'mirror' && kind !== 'read';
    const isWeighted = ({ lane, kind }: OutboxRow) => kind !== 'read' && lane !== 'backfill' && lane !== 'status';
    const age = (each: OutboxRow) => (NOW - each.due) * (isWeighted(each) && each.weight === 2 ? 1.1 : 1);
    const isStatus = ({ lane, kind }: OutboxRow) => lane === 'status' && kind !== 'read';
    const isStatusDue = live.some((each) => isStatus(each) && each.due <= NOW);
    const rank = (each: OutboxRow) => (isMirror(each) ? 2 : isStatus(each) ? 1 : 0);
    const [first] = (live.length > 0 ? live : ready).toSorted(
      (a, b) =>
        (retriesLast ? a.not_before - b.not_before : 0) ||
        (isStatusDue ? rank(a) - rank(b) : 0) ||
        age(b) - age(a) ||
        (a.entity < b.entity ? -1 : 1),
    );
    const times = (all: readonly OutboxRow[]) => {
      const moments = all.map(({ due, not_before }) => Math.max(due - leadTime, not_before));
      return moments.length === 0 ? undefined : Math.min(...moments);
    };
    return {
      entity: first?.entity,
      at: first ? NOW : times(waiting),
      live: times(waiting.filter((each) => !isBackfill(each))),
    };
  }

  async function fill(query: Scope, rows: readonly (typeof row extends fc.Arbitrary<infer Row> ? Row : never)[]) {
    for (const [index, { lane, isRead, age, weight, pause, state }] of rows.entries()) {
      const kind = isRead ? 'read' : 'pull_request';
      const due = NOW - age * 1_000;
      await addDifference(query, difference({ entity: `e${index}`, kind, lane, weight, due, since: due - 2_000 }));
      await updateChange(query, `e${index}`, { not_before: pause === 0 ? 0 : NOW + pause * 1_000, state });
    }
  }

  it('are found by index like by a scan of all rows', async () => {
    const eligible = fc.record({
      onlyReads: fc.boolean(),
      onlyWrites: fc.boolean(),
      retriesLast: fc.boolean(),
      leadTime: fc.constantFrom(0, 4_000),
    });
    const law = fc.asyncProperty(fc.array(row, { maxLength: 12 }), eligible, async (rows, chosen) => {
      const { query } = await openTestStore();
      await fill(query, rows);
      const how = { ...chosen, now: NOW, onlyWrites: chosen.onlyWrites && !chosen.onlyReads };
      const found = searched(await query.selectFrom('outbox').selectAll().execute(), how);
      expect((await nextChange(query, how))?.entity).toBe(found.entity);
      expect((await nextDue(query, how))?.at).toBe(found.at);
      const live = await nextLive(query, how);
      if (found.live === undefined) expect(live).toBeUndefined();
      else expect(Math.max(NOW, live?.at ?? 0)).toBe(Math.max(NOW, found.live));
    });
    await fc.assert(law, { numRuns: drawn(150) });
  });
});
