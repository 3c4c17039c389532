import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readHealthSummaries, readStatus } from '../../../src/store/stored-status.ts';
import { type OpenedStore, openStore } from '../../support/store.ts';

const NOW = Date.UTC(2026, 10, 20, 12);

describe('readHealthSummaries', () => {
  const statements: string[] = [];
  let store: OpenedStore;

  beforeAll(async () => {
    store = await openStore({ file: ':memory:', onStatement: (sql) => statements.push(sql) });
  });
  afterAll(() => store.close());

  it('tells workspaces apart, with the same statements for all, and leaves out connections that work', async () => {
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
    const standings = await readHealthSummaries(store.database, [own, own + 1], NOW);
    expect(statements).toHaveLength(forOne);
    expect(standings.get(own)?.connections).toEqual([
      {
        connection: 'fails',
        failure: { code: 'forbidden', message: 'no scope', hint: expect.any(String), unit: null, at: NOW - 10 },
        missingUnits: ['a/three', 'a/two'],
        refusedFetches: 0,
      },
    ]);
    expect(standings.get(own + 1)).toEqual({
      deliveries: { quarantined: 0 },
      changes: { byState: { pending: 0, sending: 0, unknown: 0, held: 0 }, waitingBackfills: 0 },
      connections: [],
      backfills: [],
      pullRequests: { total: 0, waiting: 0 },
      links: { total: 0, waiting: 0 },
      server: { records: { state: 'unknown', error: null }, routesOff: [], fieldsOff: [] },
    });
  });

  it('a unit that a poll has read since a sweep did not find it is there', async () => {
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
    const standings = await readHealthSummaries(store.database, [store.query.workspace], NOW);
    expect(standings.get(store.query.workspace)?.connections).toContainEqual(missing);
    const status = await readStatus(store.query, NOW);
    expect(status.connections).toContainEqual(missing);
    expect(status.connections).toContainEqual(expect.objectContaining({ connection: 'other', missingUnits: [] }));
  });

  it('reads no delivery and no change, but counts', async () => {
    statements.length = 0;
    await readHealthSummaries(store.database, [store.query.workspace], NOW);
    expect(statements.length).toBeGreaterThan(3);
    for (const sql of statements) {
      expect(sql).not.toMatch(/"(?:outbox|items|entities|tasks)"/);
      if (sql.includes('"inbox"')) expect(sql).toContain('count(*)');
    }
  });
});
