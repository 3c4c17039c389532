import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeServerFact } from '../../../src/store/server-facts.ts';
import { readHealthSummaries, readStatus, serverStatusesOf } from '../../../src/store/stored-status.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';

const NOW = Date.UTC(2026, 10, 20, 12);
const HOUR = 3_600_000;

describe('readHealthSummaries', () => {
  const statements: string[] = [];
  let store: OpenedStore;

  beforeAll(async () => {
    store = await openStore({ file: ':memory:', onStatement: (sql) => statements.push(sql) });
  });
  afterAll(() => store.close());

  it('separates workspaces, with the same statements for all, and leaves out connections without problems', async () => {
    const own = store.query.workspace;
    await store.query
      .insertInto('polls')
      .values([
        { connection: 'works', unit: 'a/one', completed_at: NOW - 5_000 },
        { connection: 'fails', unit: 'a/two', error: 'not_found: no such repository', failed_at: NOW - 20 },
        { connection: 'fails', unit: '*', error: 'forbidden: no scope', failed_at: NOW - 10 },
      ])
      .execute();
    await store.query
      .insertInto('sweeps')
      .values({ connection: 'fails', unit: 'a/three', error: 'not_found: no such repository' })
      .execute();
    statements.length = 0;
    await readHealthSummaries(store.database, [own], NOW);
    const forOne = statements.length;
    statements.length = 0;
    const summaries = await readHealthSummaries(store.database, [own, own + 1], NOW);
    expect(statements).toHaveLength(forOne);
    expect(summaries.get(own)?.connections).toEqual([
      {
        connection: 'fails',
        failure: { code: 'forbidden', message: 'no scope', hint: expect.any(String), unit: null, at: NOW - 10 },
        missingUnits: ['a/three', 'a/two'],
        refusedFetches: 0,
      },
    ]);
    expect(summaries.get(own + 1)).toEqual({
      deliveries: { quarantined: 0 },
      changes: { byState: { pending: 0, sending: 0, unknown: 0, held: 0 }, waitingBackfills: 0, waitingBursts: 0 },
      connections: [],
      backfills: [],
      pullRequests: { total: 0, waiting: 0 },
      links: { total: 0, waiting: 0 },
      server: {
        records: { state: 'unknown', error: null },
        routesOff: [],
        fieldsOff: [],
        updatesOff: null,
        areStatusesContested: false,
      },
    });
  });

  it('does not report a missing unit that a poll has read since the failed sweep', async () => {
    const lost = { connection: 'main', error: 'not_found: no such repository' };
    await store.query
      .insertInto('polls')
      .values([
        { connection: 'main', unit: 'a/read-since', completed_at: NOW - 10 },
        { connection: 'main', unit: 'a/read-before', completed_at: NOW - 30 },
        { connection: 'other', unit: 'a/read-elsewhere', completed_at: NOW - 10 },
      ])
      .execute();
    await store.query
      .insertInto('sweeps')
      .values(
        ['read-since', 'read-before', 'read-elsewhere'].map((name) => ({
          ...lost,
          unit: `a/${name}`,
          failed_at: NOW - 20,
        })),
      )
      .execute();
    const missing = expect.objectContaining({
      connection: 'main',
      missingUnits: ['a/read-before', 'a/read-elsewhere'],
    });
    const summaries = await readHealthSummaries(store.database, [store.query.workspace], NOW);
    expect(summaries.get(store.query.workspace)?.connections).toContainEqual(missing);
    const status = await readStatus(store.query, NOW);
    expect(status.connections).toContainEqual(missing);
    expect(status.connections).toContainEqual(expect.objectContaining({ connection: 'other', missingUnits: [] }));
  });

  it('reads no delivery and no change, only counts', async () => {
    statements.length = 0;
    await readHealthSummaries(store.database, [store.query.workspace], NOW);
    expect(statements.length).toBeGreaterThan(3);
    for (const sql of statements) {
      expect(sql).not.toMatch(/"(?:outbox|items|entities|tasks)"/);
      if (sql.includes('"inbox"')) expect(sql).toContain('count(*)');
    }
  });
});

describe('serverStatusesOf', () => {
  it('reports nothing about a server without any answer', async () => {
    const { query } = await openTestStore();
    const servers = await serverStatusesOf(query.whole, [query.workspace], NOW);
    expect(servers(query.workspace)).toEqual({
      records: { state: 'unknown', error: null },
      routesOff: [],
      fieldsOff: [],
      updatesOff: null,
      areStatusesContested: false,
    });
  });

  it('reports the refusal of records, and the routes and fields that are switched off now', async () => {
    const { query } = await openTestStore();
    await writeServerFact(query, 'records', { state: 'closed', since: 1, error: 'not_found: why' });
    const off = (offUntil: number) => ({ refused: { status: 405, resource: 'r', at: 1, offUntil } });
    await writeServerFact(query, 'routes', {
      listWorkItems: off(NOW + 1),
      getTask: off(NOW),
      getDocument: { answeredAt: 1 },
    });
    const fields = {
      labels: { offSince: NOW - HOUR },
      priority: { offSince: NOW - 25 * HOUR },
      source: { passed: true },
    };
    await writeServerFact(query, 'creation', { isTrying: true, fields, without: {} });
    const servers = await serverStatusesOf(query.whole, [query.workspace], NOW);
    expect(servers(query.workspace)).toEqual({
      records: { state: 'closed', error: 'not_found: why' },
      routesOff: [{ route: 'listWorkItems', status: 405, until: NOW + 1 }],
      fieldsOff: ['labels'],
      updatesOff: null,
      areStatusesContested: false,
    });
  });
});
