import { readFileSync } from 'node:fs';
import { Kysely, sql } from 'kysely';
import type { Pool } from 'pg';
import { describe, expect, it, test } from 'vitest';
import { asSlowRead, postgresFaultOf, watchFaults } from '../../../../src/platform/database/database-fault.ts';
import { ownTables, StoreAdapter, StoreCompiler } from '../../../../src/platform/database/postgres.ts';
import { readAddress } from '../../../../src/platform/database/postgres-address.ts';
import { createConnections, readTlsFiles } from '../../../../src/platform/database/postgres-driver.ts';

describe('the address of PostgreSQL', () => {
  it('names a schema and connections, and passes the rest on', () => {
    const address = readAddress(
      'postgres://sync:s%40fe@db.example.com:6543/work?schema=mine&connections=9&sslmode=verify-full&options=-c%20geqo%3Doff',
    );
    expect(address).toEqual({
      place: 'postgres://sync@db.example.com:6543/work, schema mine',
      connection: { connectionString: 'postgres://sync:s%40fe@db.example.com:6543/work?sslmode=verify-full' },
      options: '-c geqo=off',
      schema: 'mine',
      connections: 9,
    });
  });

  it.each<[query: string, options: object]>([
    ['', {}],
    ['&sslmode=no-verify', { rejectUnauthorized: false }],
    ['&sslmode=prefer&uselibpqcompat=true', { rejectUnauthorized: false }],
    ['&sslmode=require&uselibpqcompat=true', { checkServerIdentity: expect.any(Function) }],
    ['&sslmode=verify-ca&uselibpqcompat=true', { checkServerIdentity: expect.any(Function) }],
  ])('moves the files for TLS and their mode out of the query: %s', async (query, options) => {
    const address = readAddress(`postgres://db/work?sslrootcert=${import.meta.filename}${query}&x=1`);
    await readTlsFiles(address);
    expect(address.connection.connectionString).toBe('postgres://db/work?x=1');
    expect(address.connection.ssl).toEqual({ ...options, ca: readFileSync(import.meta.filename, 'utf8') });
  });

  it('refuses a certificate that is no regular file, and keeps the last contents', async () => {
    const address = readAddress('postgres://db/work?sslrootcert=/dev/zero');
    Object.assign(address.connection.ssl as object, { ca: 'before' });
    await expect(readTlsFiles(address)).rejects.toThrow('sslrootcert: /dev/zero is a device, not a regular file');
    expect(address.connection.ssl).toEqual({ ca: 'before' });
  });

  it.each([
    ['postgres://', 'no valid URL'],
    ['postgres://db/work?schema=Mine', 'schema'],
    ['postgres://db/work?connections=0', 'connections'],
    ['postgres://db/work?connections=51', 'connections'],
    ['postgres://u:%zz-secret@db/work', 'malformed'],
  ])('%s is refused, and no password told', (text, reason) => {
    expect(() => readAddress(text)).toThrow(new RegExp(reason, 'i'));
    expect(() => readAddress(text)).not.toThrow('secret');
  });
});

describe('a fault of PostgreSQL', () => {
  const PLACE = 'postgres://db.example.com/worksync, schema worksync';

  function failure(code: string, message = 'says the server'): Error {
    return Object.assign(new Error(message), { code });
  }

  it.each<[kind: string, codes: readonly string[]]>([
    ['full', ['53100']],
    ['busy', ['53200', '55P03', '40001', '40P01', '57014', '25P03']],
    ['away', ['53300', '57P01', '57P03', '25006', '08006']],
    ['away', ['ECONNREFUSED', 'ENOTFOUND', 'ECONNRESET', 'SELF_SIGNED_CERT_IN_CHAIN']],
    ['denied', ['28P01', '42501', '3D000']],
    ['failed', ['58030']],
    ['corrupt', ['XX001']],
  ])('%s is the fault of %j', (kind, codes) => {
    for (const code of codes) {
      const fault = postgresFaultOf(failure(code), PLACE);
      expect(fault).toMatchObject({ kind, message: `${PLACE}: says the server (${code})` });
      expect(fault?.mayPass).toBe(kind !== 'corrupt');
    }
  });

  it.each([
    'Query read timeout',
    'Connection terminated due to connection timeout',
    'Connection terminated unexpectedly',
  ])('the client says: %s', (message) => {
    expect(postgresFaultOf(new Error(message), PLACE)).toMatchObject({ kind: 'away' });
  });

  it('a read that has no answer in time is busy, and a lost connection stays away', () => {
    expect(postgresFaultOf(asSlowRead(new Error('Query read timeout')), PLACE)).toMatchObject({ kind: 'busy' });
    expect(postgresFaultOf(asSlowRead(new Error('Connection terminated unexpectedly')), PLACE)?.kind).toBe('away');
  });

  it.each([['23505'], ['42601'], ['22P02'], ['0A000']])('%s is an error of a statement, and no fault', (code) => {
    expect(postgresFaultOf(failure(code), PLACE)).toBeUndefined();
  });

  it('a prepared statement of older tables is prepared anew', () => {
    expect(postgresFaultOf(failure('0A000', 'cached plan must not change result type'), PLACE)?.kind).toBe('busy');
  });
});

describe('the driver of PostgreSQL', () => {
  interface Sent {
    readonly text: string;
    readonly values: readonly unknown[];
    answer(): void;
    refuse(): void;
  }

  /** A database whose answers come when the test says so. */
  function openSlow() {
    const sent: Sent[] = [];
    const client = {
      query: (statement: string | { text: string; values?: readonly unknown[] }) =>
        new Promise((resolve, reject) => {
          const text = typeof statement === 'string' ? statement : statement.text;
          const answer = () => resolve({ command: text.split(' ', 1)[0]?.toUpperCase(), rowCount: 0, rows: [] });
          const values = typeof statement === 'string' ? [] : (statement.values ?? []);
          sent.push({ text, values, answer, refuse: () => reject(new Error(`refused: ${text}`)) });
        }),
      release: () => undefined,
    };
    const pool = { connect: async () => client, end: async () => undefined } as unknown as Pool;
    const watch = watchFaults(
      () => undefined,
      () => undefined,
    );
    const connections = createConnections({
      ...{ writer: pool, readers: pool, watch },
      onStatement: () => undefined,
    });
    const database = new Kysely<Record<string, never>>({
      dialect: {
        createAdapter: () => new StoreAdapter(),
        createDriver: () => connections.driver('begin'),
        createIntrospector: ownTables,
        createQueryCompiler: () => new StoreCompiler(),
      },
    });
    const settled = () => new Promise((resolve) => setImmediate(resolve));
    return {
      database,
      /** Returns the messages that were sent since the last call. */
      async next(): Promise<readonly Sent[]> {
        await settled();
        return sent.splice(0);
      },
    };
  }

  /** Begins to wait at once: a rejection may come before anybody looks. */
  const failureOf = (done: Promise<unknown>) =>
    done.then(
      () => undefined,
      (error: Error) => error.message,
    );

  test('what writes waits until the transaction has begun, or it would count without one', async () => {
    const { database, next } = openSlow();
    const done = database.transaction().execute((transaction) => sql`update thing set a = 1`.execute(transaction));
    const failure = failureOf(done);
    const [begin, ...others] = await next();
    expect(others).toEqual([]);
    begin?.refuse();
    const [rollback, ...more] = await next();
    expect([rollback?.text, ...more]).toEqual(['rollback']);
    rollback?.answer();
    expect(await failure).toBe('refused: begin');
  });

  test('nothing is written after a read whose transaction never began', async () => {
    const { database, next } = openSlow();
    const done = database.transaction().execute(async (transaction) => {
      await sql`select 1`.execute(transaction);
      await sql`update thing set a = 1`.execute(transaction);
    });
    const failure = failureOf(done);
    const [begin, read] = await next();
    begin?.refuse();
    read?.answer();
    const [rollback, ...more] = await next();
    expect([rollback?.text, ...more]).toEqual(['rollback']);
    rollback?.answer();
    expect(await failure).toBe('refused: begin');
  });

  test('what changes rows and reads others in one statement waits for its turn, as all that writes', async () => {
    const { database, next } = openSlow();
    const tables = database.withTables<{ replicas: { id: string } }>();
    const first = tables.updateTable('replicas').set({ id: 'a' }).execute();
    const both = tables
      .with('changed', (query) => query.updateTable('replicas').set({ id: 'b' }).returning('id'))
      .selectFrom('changed')
      .selectAll()
      .execute();
    const reading = tables
      .with('known', (query) => query.selectFrom('replicas').select('id'))
      .selectFrom('known')
      .selectAll()
      .execute();
    const early = await next();
    expect(early.map(({ text }) => text.split(' ', 2).join(' '))).toEqual(['with "known"', 'update "replicas"']);
    for (const { answer } of early) answer();
    await Promise.all([first, reading]);
    const [late] = await next();
    expect(late?.text).toContain('with "changed"');
    late?.answer();
    await both;
  });

  test('the one sign that no text of PostgreSQL holds is replaced, and nothing else', async () => {
    const { database, next } = openSlow();
    const bytes = Buffer.from('\0');
    const given = ['a\0b\0', 'a\u0001b', '\ud83d\ude00', '\0\ud83d', 7, null, bytes];
    const done = sql`select ${sql.join(given)}`.execute(database);
    const [select] = await next();
    expect(select?.values).toEqual([
      ...['a\ufffdb\ufffd', 'a\u0001b', '\ud83d\ude00', '\ufffd\ufffd'],
      ...[7, null, bytes],
    ]);
    select?.answer();
    await done;
  });
});
