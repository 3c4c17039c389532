import { describe, expect, it } from 'vitest';
import { blankEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, updateChange } from '../../../../src/store/outbox-rows.ts';
import type { PlannedWrite } from '../../../../src/sync/outbox/planned-writes.ts';
import { differenceOf, digestOf, firstDue, readPlan } from '../../../../src/sync/outbox/planned-writes.ts';
import { openTestStore } from '../../../support/intake.ts';

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
    ['the order', [write('b'), write('a')], true],
    ['what the guard holds', [write('a', { held: true }), write('b')], true],
    ['another body', [write('a', { body: { title: 'c' } }), write('b')], false],
    ['another action', [write('a', { action: 'remove-link' }), write('b')], false],
    ['one more', [write('a'), write('b'), write('c')], false],
    ['one less', [write('a')], false],
  ])('%s: the same %#', async (_what, plan, isSame) => {
    expect((await digestOf(plan)).id === id).toBe(isSame);
  });

  it('goes with the difference, by entity', async () => {
    const present = await digestOf([write('b', { body: { title: 'new' } }), write('c')]);
    expect(differenceOf(await digestOf([write('a'), write('b')]), present)).toEqual({
      added: ['pull_request:c'],
      changed: ['pull_request:b'],
      gone: ['pull_request:a'],
    });
  });
});

describe('the writes of a plan', () => {
  it('are those that wait, are held by the guard, or are on the wire; not reads, refused ones or needless ones', async () => {
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
  it('lets the event loop turn while it is worked out, and comes by entity; the first are those due first', async () => {
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
