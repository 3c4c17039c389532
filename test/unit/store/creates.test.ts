import { expect, test } from 'vitest';
import type { Store } from '../../../src/store/database.ts';
import { writeMeta } from '../../../src/store/meta.ts';
import { addDifference, removeChange, updateChange } from '../../../src/store/outbox-rows.ts';
import {
  areTasksUnverified,
  delayCreations,
  markTasksUnverified,
  markTasksVerified,
  resumeCreations,
  unknownCreations,
} from '../../../src/store/task-creations.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { wrongWhereStatementsFail } from '../../support/each-statement-fails.ts';
import { openTestStore } from '../../support/intake.ts';

const NOW = 1_000_000;
/** A task list that does not come for so long is waited for no longer. */
const LONGEST = 900_000;

type Row = Partial<Pick<Awaited<ReturnType<typeof rowsOf>>[number], 'kind' | 'state' | 'attempts' | 'sent'>>;
const rowsOf = ({ query }: Store) => query.selectFrom('outbox').selectAll().orderBy('entity').execute();

/** One that was never tried, and others that are no such tasks. */
const OTHERS: Readonly<Record<string, Row>> = {
  'link:b': { kind: 'link' },
  'task:failed': { attempts: 1 },
  'task:flying': { state: 'sending', sent: '{}' },
  'task:held': { state: 'held' },
  'task:open': { sent: '{}' },
};

async function withChanges(): Promise<Store> {
  const store = await openTestStore();
  for (const [entity, row] of [['task:a', {} as Row] as const, ...Object.entries(OTHERS)]) {
    const kind = row.kind === 'link' ? 'link' : 'task';
    const wish = { entity, kind, lane: 'triage', since: 500, due: 600, weight: 1, waiting: [] } as const;
    await addDifference(store.query, wish);
    await store.query
      .updateTable('outbox')
      .set({ ...row, due: 600 })
      .where('entity', '=', entity)
      .execute();
  }
  return store;
}

/** Which of them wait until then, and are due no earlier. */
const waitingUntil = async (store: Store, time: number) =>
  (await rowsOf(store))
    .filter(({ not_before, due }) => not_before === time && due === time)
    .map(({ entity }) => entity);

const all = ['a', 'failed', 'flying', 'held', 'open'];

test('only tasks that were never tried wait for the list', async () => {
  const store = await withChanges();
  expect(await delayCreations(store.query, [...all, 'b'], NOW)).toBe(true);
  expect(await waitingUntil(store, NOW + LONGEST)).toEqual(['task:a']);
  expect(await delayCreations(store.query, all.slice(1), NOW)).toBe(false);
  expect(await delayCreations(store.query, [], NOW)).toBe(false);
});

test('only those of these items wait', async () => {
  const store = await withChanges();
  expect(await delayCreations(store.query, ['other'], NOW)).toBe(false);
  expect(await waitingUntil(store, NOW + LONGEST)).toEqual([]);
});

test('a process that begins lets all of them wait, until a list came that was requested since', async () => {
  const store = await withChanges();
  expect(await areTasksUnverified(store.query)).toBe(false);
  expect(await markTasksUnverified(store.query, NOW)).toBe(true);
  expect(await waitingUntil(store, NOW + LONGEST)).toEqual(['task:a']);
  await markTasksVerified(store.query, NOW - 1);
  expect(await areTasksUnverified(store.query)).toBe(true);
  await markTasksVerified(store.query, NOW);
  expect(await areTasksUnverified(store.query)).toBe(false);
});

test('where none waits that was never tried, a process that begins says so, and is unsure all the same', async () => {
  const store = await withChanges();
  await removeChange(store.query, 'task:a');
  expect(await markTasksUnverified(store.query, NOW)).toBe(false);
  expect(await areTasksUnverified(store.query)).toBe(true);
});

test('those with unknown outcome are told, and no others', async () => {
  const store = await withChanges();
  expect(await unknownCreations(store.query)).toEqual([]);
  for (const name of ['task:open', 'link:b']) await updateChange(store.query, name, { state: 'unknown' });
  expect((await unknownCreations(store.query)).map(({ entity }) => entity)).toEqual(['task:open']);
});

test('whichever statement fails, nobody takes tasks for sure, or unsure, who was not told so', async () => {
  const works: readonly ((query: Scope) => Promise<unknown>)[] = [
    (query: Scope) => delayCreations(query, ['a'], NOW),
    (query: Scope) => markTasksUnverified(query, NOW),
    (query: Scope) => markTasksVerified(query, NOW),
    (query: Scope) => resumeCreations(query, NOW, NOW),
  ];
  for (const work of works) {
    const wrong = await wrongWhereStatementsFail(async (store) => {
      await addDifference(store.query, {
        ...{ entity: 'task:a', kind: 'task', lane: 'triage', since: 500, due: 600, weight: 1, waiting: [] },
        notBefore: 1,
      });
      await writeMeta(store.query, 'tasks_unsure_since', '1');
      return () => store.commit(work);
    });
    expect(wrong).toEqual([]);
  }
});

test('a list lets go those that waited before it was requested, at the time that they came, and no pause of another', async () => {
  const store = await withChanges();
  await delayCreations(store.query, all, NOW);
  const paused = { not_before: NOW, due: 600 };
  await store.query.updateTable('outbox').set(paused).where('entity', 'in', Object.keys(OTHERS)).execute();
  expect(await resumeCreations(store.query, NOW - 1, NOW)).toBe(true);
  expect(await waitingUntil(store, NOW + LONGEST)).toEqual(['task:a']);
  expect(await resumeCreations(store.query, NOW, NOW)).toBe(false);
  const rows = await rowsOf(store);
  const free = rows.filter(({ not_before }) => not_before === 0);
  expect(free.map(({ entity, due }) => [entity, due])).toEqual([['task:a', 500]]);
  expect(rows.filter(({ not_before }) => not_before === NOW)).toHaveLength(Object.keys(OTHERS).length);
});
