import { expect, test } from 'vitest';
import { yieldToEventLoop } from '../../../../src/platform/lib/yield.ts';
import type { NewDelivery } from '../../../../src/store/append-deliveries.ts';
import type { Store } from '../../../../src/store/database.ts';
import { createGroupCommit } from '../../../../src/sync/intake/append.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { inboxOf, openTestStore } from '../../../support/intake.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const delivery = (key: string): NewDelivery => ({
  ...{ connection: 'notes', key, source: 'webhook', event: 'note', body: Buffer.from('body') },
});

function commitsOver(store: Store, look: Store['look'] = store.look) {
  const clock = createTravellingClock();
  const commits = createGroupCommit({ sql: store.query.whole, look, clock });
  return { clock, commits, append: (key: string) => commits.append(store.query.workspace, delivery(key)) };
}

test('a lone delivery does not wait for others', async () => {
  let began = 0;
  const store = await openTestStore({
    onStatement: (statement) => void (began += statement.includes('"inbox"') ? 1 : 0),
  });
  const { append } = commitsOver(store);
  await append('a');
  began = 0;
  const stored = append('b');
  // One turn, in which another one might come; and some to begin with.
  for (let turn = 0; turn < 4; turn++) await yieldToEventLoop();
  expect(began).toBeGreaterThan(0);
  await stored;
});

test.each([
  [0, 1],
  [1, 2],
])('two deliveries with %d bytes more than one commit takes are stored by %d', async (more, expected) => {
  const HALF = 2 * 1024 * 1024;
  let stored = 0;
  const store = await openTestStore({
    onStatement: (statement) => void (stored += statement.startsWith('insert into "inbox"') ? 1 : 0),
  });
  const { commits } = commitsOver(store);
  const append = (key: string, bytes: number) =>
    commits.append(store.query.workspace, { ...delivery(key), body: Buffer.alloc(bytes) });
  await Promise.all([append('a', HALF), append('b', HALF + more)]);
  expect(stored).toBe(expected);
});

test('whichever statement fails, whoever delivered is told, and nothing is stored', async () => {
  const wrong = await wrongWhereStatementsFail(async (store) => {
    const { append } = commitsOver(store);
    return () => append('a');
  });
  expect(wrong).toEqual([]);
});

test('a commit that fails is told to all who share it, and the next one goes on', async () => {
  let fails = true;
  const store = await openTestStore({
    onStatement(statement) {
      if (fails && statement.startsWith('insert into "inbox"')) throw new Error('the disk is full');
    },
  });
  const { append } = commitsOver(store);
  const ended = await Promise.allSettled([append('a'), append('b')]);
  expect(ended.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(ended).toMatchObject([{ reason: { name: 'SyncError' } }, { reason: { name: 'SyncError' } }]);
  fails = false;
  expect(await append('a')).toMatchObject({ appended: 'new' });
  expect(await inboxOf(store)).toHaveLength(1);
});

test('what went into a file that is gone is told as not stored', async () => {
  const store = await openTestStore();
  const fault = Object.assign(new Error('the file is gone'), { code: 'database_failed' });
  const { append } = commitsOver(store, () => fault as unknown as ReturnType<Store['look']>);
  await expect(append('a')).rejects.toMatchObject({ code: 'database_failed' });
});

test('a crowd has passed a quarter of a second after the last commit that several shared', async () => {
  const store = await openTestStore();
  const { clock, commits, append } = commitsOver(store);
  expect(commits.isCrowded()).toBe(false);
  await Promise.all([append('a'), append('b')]);
  await clock.advance(249);
  expect(commits.isCrowded()).toBe(true);
  // One that comes alone makes no crowd, and does not end one.
  await append('c');
  expect(commits.isCrowded()).toBe(true);
  await clock.advance(1);
  expect(commits.isCrowded()).toBe(false);
});
