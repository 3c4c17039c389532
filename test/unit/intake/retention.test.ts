import { describe, expect, onTestFinished, test } from 'vitest';
import { type Retained, retentionJob } from '../../../src/intake/retention.ts';
import { type LogFields, silentLogger } from '../../../src/lib/logger.ts';
import { systemRandom } from '../../../src/lib/random.ts';
import type { DeliveryState } from '../../../src/model/delivery.ts';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import type { Store } from '../../../src/store/database.ts';
import { deleteDeliveries, purgeBodies } from '../../../src/store/deletions.ts';
import { openInstallationFile } from '../../../src/store/installation.ts';
import { inboxOf, openTestStore } from '../../support/intake.ts';
import { createTravellingClock } from '../../support/travelling-clock.ts';

const DAY = 86_400_000;

async function seed(store: Pick<Store, 'query'>, key: string, state: DeliveryState, receivedAt: number): Promise<void> {
  const delivery = { connection: 'notes', key, source: 'webhook' as const, event: 'note', body: Buffer.from('body') };
  await appendDeliveries(store.query, [delivery], receivedAt);
  const settled_at = state === 'pending' ? null : receivedAt + 1;
  await store.query.updateTable('inbox').set({ state, settled_at }).where('delivery_key', '=', key).execute();
}

test('bodies go after their time, deliveries after theirs; what is pending stays, what is in quarantine keeps its body', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const now = clock.now();
  const states = ['pending', 'applied', 'superseded', 'ignored', 'quarantined'] as const;
  for (const state of states)
    for (const age of [1, 20, 100]) await seed(store, `${state} ${age}`, state, now - age * DAY);

  const retention = { bodies: 14 * DAY, deliveries: 90 * DAY };
  const workspaces = () => [{ name: 'test', store, retention }];
  const job = retentionJob({ query: store.database, workspaces, clock, logger: silentLogger });
  await job.run(new AbortController().signal);

  const left = (await inboxOf(store)).map((row) => `${row.delivery_key}: ${row.body}`);
  expect(left.sort()).toEqual(
    [
      ...states.map((state) => `${state} 1: body`),
      'applied 20: null',
      'superseded 20: null',
      'ignored 20: null',
      'quarantined 20: body',
      'pending 20: body',
      'pending 100: body',
    ].sort(),
  );
});

test('works in small batches, through the index', async () => {
  const statements: string[] = [];
  const store = await openTestStore({ onStatement: (statement) => statements.push(statement) });
  for (let index = 0; index < 12; index++) await seed(store, `key-${index}`, 'applied', index);
  statements.length = 0;
  expect(await purgeBodies(store.query, 100, 5)).toBe(5);
  expect(await purgeBodies(store.query, 100, 50)).toBe(7);
  expect(await purgeBodies(store.query, 100, 50)).toBe(0);
  expect(await deleteDeliveries(store.query, 100, 5)).toBe(5);
  expect(await inboxOf(store)).toHaveLength(7);
  for (const [index, name] of [
    [0, 'inbox_bodies'],
    [5, 'inbox_received'],
  ] as const) {
    const { sql } = await import('kysely');
    const plan = await sql<{ detail: string }>`explain query plan ${sql.raw(statements[index] as string)}`.execute(
      store.database,
    );
    expect(plan.rows.map((row) => row.detail).join('; ')).toContain(name);
  }
});

test('what frees megabytes goes a few at a time', async () => {
  const store = await openTestStore();
  for (let index = 0; index < 5; index++) await seed(store, `key-${index}`, 'applied', index);
  await store.query
    .updateTable('inbox')
    .set({ body: Buffer.alloc(4_000_000) })
    .execute();
  expect(await purgeBodies(store.query, 100, 1)).toBe(1);
  expect(await purgeBodies(store.query, 100, 50)).toBe(2);
  expect(await deleteDeliveries(store.query, 100, 50)).toBe(5);
  expect(await inboxOf(store)).toEqual([]);
});

describe('of many workspaces', () => {
  const retention = { bodies: DAY, deliveries: 90 * DAY };
  const { signal } = new AbortController();

  async function openMany(count: number) {
    const statements: string[] = [];
    const installation = await openInstallationFile({
      file: ':memory:',
      random: systemRandom(),
      onStatement: (statement) => statements.push(statement),
    });
    onTestFinished(() => installation.close());
    const clock = createTravellingClock();
    const open: Retained[] = [];
    for (let index = 0; index < count; index++) {
      const name = `workspace-${index}`;
      open.push({ name, store: await installation.store(name), retention });
    }
    const purged: unknown[] = [];
    const logger = {
      ...silentLogger,
      info: (fields: LogFields) => void purged.push([fields['workspace'], fields['bodies']]),
    };
    const { query } = installation;
    const job = retentionJob({ query, workspaces: () => open, clock, logger });
    const fill = async (index: number, deliveries: number) => {
      const { store } = open[index] as Retained;
      for (let at = 0; at < deliveries; at++) await seed(store, `key-${at}`, 'applied', clock.now() - 2 * DAY);
    };
    return { statements, open, purged, job, fill };
  }

  test('those that have nothing old cost no statement', async () => {
    const counts: number[] = [];
    for (const count of [1, 400]) {
      const { statements, job } = await openMany(count);
      statements.length = 0;
      await job.run(signal);
      counts.push(statements.length);
    }
    expect(counts).toEqual([2, 2]);
  });

  test('each has its turn: one that has much to forget keeps no other waiting', async () => {
    const { statements, job, fill, purged } = await openMany(3);
    await fill(0, 450);
    await fill(2, 10);
    statements.length = 0;
    await job.run(signal);
    const turns = statements.flatMap((statement) => /^update "inbox".*"workspace" = (\d+)/s.exec(statement)?.[1] ?? []);
    expect(turns.slice(0, 3)).toEqual(['1', '3', '1']);
    expect(purged).toEqual([
      ['workspace-0', 450],
      ['workspace-2', 10],
    ]);
  });

  test('what is wrong with one keeps no other from being purged', async () => {
    const { job, fill, purged, open } = await openMany(2);
    await fill(0, 1);
    await fill(1, 1);
    const broken = { ...(open[0] as Retained).store, commitRelaxed: () => Promise.reject(new Error('a fault')) };
    open[0] = { ...(open[0] as Retained), store: broken };
    await job.run(signal);
    expect(purged).toEqual([['workspace-1', 1]]);
  });

  test('they are found by the indexes', async () => {
    const { statements, job, open } = await openMany(2);
    statements.length = 0;
    await job.run(signal);
    const { sql } = await import('kysely');
    const { whole } = (open[0] as Retained).store.query;
    for (const [index, name] of [
      'inbox_bodies (workspace=? AND settled_at>? AND settled_at<?)',
      'inbox_received (workspace=? AND',
    ].entries()) {
      const found = await sql<{ detail: string }>`explain query plan ${sql.raw(statements[index] as string)}`.execute(
        whole,
      );
      expect(found.rows.map((row) => row.detail).join('; ')).toContain(name);
    }
  });
});
