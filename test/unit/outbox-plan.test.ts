import { describe, expect, it } from 'vitest';
import { differenceOf, digestOf, type PlannedWrite, readPlan } from '../../src/outbox/plan.ts';
import { blankEntity, saveEntity } from '../../src/store/entities.ts';
import { addDifference, updateChange } from '../../src/store/outbox.ts';
import { openTestStore } from '../support/intake.ts';

const write = (name: string, fields: Partial<PlannedWrite> = {}): PlannedWrite => ({
  entity: `pull_request:${name}`,
  kind: 'pull_request',
  action: 'record-pull-request',
  body: { title: name },
  held: false,
  ...fields,
});

describe('the id of a plan', () => {
  const { id } = digestOf([write('a'), write('b')]);

  it.each([
    ['the order', [write('b'), write('a')], true],
    ['what the guard holds', [write('a', { held: true }), write('b')], true],
    ['another body', [write('a', { body: { title: 'c' } }), write('b')], false],
    ['another action', [write('a', { action: 'remove-link' }), write('b')], false],
    ['one more', [write('a'), write('b'), write('c')], false],
    ['one less', [write('a')], false],
  ])('%s: the same %#', (_what, plan, isSame) => {
    expect(digestOf(plan).id === id).toBe(isSame);
  });

  it('goes with the difference, by entity', () => {
    const present = digestOf([write('b', { body: { title: 'new' } }), write('c')]);
    expect(differenceOf(digestOf([write('a'), write('b')]), present)).toEqual({
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
