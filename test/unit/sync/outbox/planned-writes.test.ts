import { describe, expect, it } from 'vitest';
import { blankEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, updateChange } from '../../../../src/store/outbox-rows.ts';
import {
  differenceOf,
  digestOf,
  firstDue,
  type PlannedWrite,
  readPlan,
} from '../../../../src/sync/outbox/planned-writes.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

const write = (name: string, fields: Partial<PlannedWrite> = {}): PlannedWrite => ({
  entity: `pull_request:${name}`,
  kind: 'pull_request',
  action: 'record-pull-request',
  body: { title: name },
  held: false,
  due: 2,
  ...fields,
});

describe('the id of a plan', async () => {
  const { id } = await digestOf([write('a'), write('b')]);

  it.each([
    ['does not depend on the order', [write('b'), write('a')], true],
    ['does not depend on what the guard holds', [write('a', { held: true }), write('b')], true],
    ['changes with the body', [write('a', { body: { title: 'c' } }), write('b')], false],
    ['changes with the action', [write('a', { action: 'remove-link' }), write('b')], false],
    ['changes with one more write', [write('a'), write('b'), write('c')], false],
    ['changes with one less write', [write('a')], false],
  ])('%s', async (_what, plan, isSame) => {
    expect((await digestOf(plan)).id === id).toBe(isSame);
  });

  it('comes with hashes that show the difference by entity', async () => {
    const present = await digestOf([write('b', { body: { title: 'new' } }), write('c')]);
    expect(differenceOf(await digestOf([write('a'), write('b')]), present)).toEqual({
      added: ['pull_request:c'],
      changed: ['pull_request:b'],
      gone: ['pull_request:a'],
    });
  });
});

describe('the writes of a plan', () => {
  it('are pending, held by the guard or in flight, but not read, refused or without a difference', async () => {
    const { query } = await openTestStore();
    const states = {
      a: {},
      b: { state: 'held', guard: 'held' },
      c: { state: 'held', error: 'refused: no' },
      d: { state: 'unknown' },
      e: { state: 'sending', sent: JSON.stringify({ action: 'record-pull-request', body: { title: 'as sent' } }) },
      f: {},
    } as const;
    for (const [name, state] of Object.entries(states)) {
      const entity = `pull_request:${name}`;
      const desired = name === 'f' ? null : JSON.stringify({ title: name });
      await saveEntity(query, blankEntity(entity, 'pull_request', { desired }));
      const times = { since: 1, due: 2, weight: 1 };
      await addDifference(query, { entity, kind: 'pull_request', lane: 'mirror', ...times, waiting: [] });
      await updateChange(query, entity, { lane: 'mirror', ...state });
    }
    await addDifference(query, {
      entity: 'read:tasks',
      kind: 'read',
      lane: 'read',
      since: 1,
      due: 1,
      weight: 1,
      waiting: [],
    });
    expect(await readPlan(query)).toEqual([
      write('a'),
      write('b', { held: true }),
      write('e', { body: { title: 'as sent' } }),
    ]);
  });
});

describe('a plan of many writes', () => {
  it('is computed in batches between turns of the event loop, ordered by entity', async () => {
    const store = await openTestStore();
    const count = 3_000;
    await store.commit(async (transaction) => {
      for (let number = 0; number < count; number++) {
        const entity = `pull_request:${String(number).padStart(5, '0')}`;
        await saveEntity(transaction, blankEntity(entity, 'pull_request', { desired: '{"title":"t"}' }));
        const times = { since: 1, due: count - number, weight: 1 };
        await addDifference(transaction, { entity, kind: 'pull_request', lane: 'mirror', ...times, waiting: [] });
      }
    });
    let turns = 0;
    const turning = setInterval(() => turns++, 0);
    const plan = await readPlan(store.query);
    await digestOf(plan);
    clearInterval(turning);
    expect(turns).toBeGreaterThanOrEqual(5);
    expect(plan).toHaveLength(count);
    expect(plan.map(({ entity }) => entity)).toEqual(plan.map(({ entity }) => entity).toSorted());
    expect(firstDue(plan, 2).map(({ due }) => due)).toEqual([1, 2]);
  });
});
