import { sql } from 'kysely';
import pg from 'pg';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { judgeServer } from '../../../src/admin/check-server.ts';
import type { ServerFacts } from '../../../src/platform/database/database-types.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { appendDeliveries } from '../../../src/store/append-deliveries.ts';
import { readCounts } from '../../../src/store/counts.ts';
import { findWorkspace, forgetWorkspace } from '../../../src/store/deletions.ts';
import { openInstallationFile } from '../../../src/store/installation.ts';
import { saveRows } from '../../../src/store/unit-of-work/unit-of-work.ts';
import { ON_POSTGRES } from '../../support/postgres/store-place.ts';

const SOUND: ServerFacts = {
  version: 180_004,
  settings: { fsync: 'on', full_page_writes: 'on', synchronous_commit: 'on', synchronous_standby_names: '' },
  encoding: 'UTF8',
  ...{ encrypted: true, isLocal: false, isStandby: false },
  ...{ most: 100, free: 90, wanted: 7 },
  ...{ isSuperuser: false, mayCreate: true, foreign: [] },
  ...{ standbys: 0, latency: 0.42, ahead: 0 },
};

/** Whatever is not right says what to do. */
function told(facts: Partial<Omit<ServerFacts, 'settings'>>, settings: ServerFacts['settings'] = {}): string[] {
  const found = judgeServer('postgres://db/worksync', {
    ...SOUND,
    ...facts,
    settings: { ...SOUND.settings, ...settings },
  });
  for (const { level, hint } of found) expect(hint === undefined).toBe(level === 'ok');
  return found.map(({ level, message }) => `${level}: ${message}`);
}

const wrong = (lines: readonly string[]) => lines.filter((line) => !line.startsWith('ok: '));

describe('a PostgreSQL', () => {
  it('that is sound tells its version, connections and speed', () => {
    expect(told({})).toEqual([
      'ok: postgres://db/worksync: PostgreSQL 18.4',
      'ok: what it has committed is on its disk',
      'ok: 90 of 100 connections are free; each worksync takes up to 7',
      'ok: a statement takes 0.4 ms',
    ]);
  });

  it.each<[string, Partial<ServerFacts>, ServerFacts['settings'], string]>([
    ['an old one', { version: 130_023 }, {}, 'error: postgres://db/worksync: PostgreSQL 13.23'],
    ['another encoding', { encoding: 'LATIN1' }, {}, 'error: the database stores texts as LATIN1'],
    ['a standby', { isStandby: true }, {}, 'error: it is a standby'],
    ['one that only reads', {}, { default_transaction_read_only: 'on' }, 'error: default_transaction_read_only is on'],
    ['a superuser', { isSuperuser: true }, {}, 'warning: the role is a superuser'],
    ['no right to make tables', { mayCreate: false }, {}, 'warning: the role may not make tables'],
    [
      'tables of others',
      { foreign: ['inbox', 'items'] },
      {},
      'warning: another role owns 2 tables of the schema (inbox)',
    ],
    ['no fsync', {}, { fsync: 'off' }, 'error: fsync is off'],
    ['half pages', {}, { full_page_writes: 'off' }, 'warning: full_page_writes is off'],
    ['relaxed commits', {}, { synchronous_commit: 'off' }, 'error: synchronous_commit is off'],
    [
      'commits that wait for no standby',
      { standbys: 1 },
      { synchronous_commit: 'local', synchronous_standby_names: 'b' },
      'warning: synchronous_commit is local, so nothing waits for the standbys',
    ],
    [
      'a standby that is gone',
      {},
      { synchronous_standby_names: 'b' },
      'warning: it waits for a standby at each commit',
    ],
    ['standbys aside', { standbys: 2 }, {}, 'warning: it has 2 standbys and waits for none at a commit'],
    ['few connections', { most: 6, free: 6 }, {}, 'error: 6 of 6 connections are free'],
    ['no room for another replica', { free: 3 }, {}, 'warning: 3 of 100 connections are free'],
    ['a slow one', { latency: 21 }, {}, 'warning: a statement takes 21.0 ms'],
    ['a network that others read', { encrypted: false }, {}, 'warning: the connection is not encrypted'],
  ])('tells of %s', (_what, facts, settings, expected) => {
    const [first, ...more] = wrong(told(facts, settings));
    expect(first).toContain(expected);
    expect(more).toEqual([]);
  });

  it.each<[string, Partial<ServerFacts>, ServerFacts['settings']]>([
    ['of the oldest version', { version: 140_000 }, {}],
    ['of this machine, in clear', { encrypted: false, isLocal: true }, {}],
    ['with a standby that it waits for', { standbys: 1 }, { synchronous_standby_names: 'b' }],
    ['with a commit that is local, and no standby', {}, { synchronous_commit: 'local' }],
    ['with just enough connections', { most: 7, free: 7 }, {}],
  ])('%s is sound', (_what, facts, settings) => expect(wrong(told(facts, settings))).toEqual([]));
});

/** A role that has a schema of its own, and nothing else. */
async function roleAlone(): Promise<{ readonly address: string; readonly admin: pg.Client; readonly schema: string }> {
  const address = new URL(inject('postgres'));
  const admin = new pg.Client({ connectionString: address.href });
  await admin.connect();
  onTestFinished(() => admin.end());
  const schema = `alone_${systemRandom().bytes(4).toString('hex')}`;
  await admin.query(`create role ${schema} login password 'alone'; create schema ${schema} authorization ${schema}`);
  address.username = schema;
  address.password = 'alone';
  return { address: `${address.href}?schema=${schema}`, admin, schema };
}

async function openAlone(address: string) {
  const installation = await openInstallationFile({ file: address, random: systemRandom() });
  onTestFinished(() => installation.close());
  return installation;
}

describe.runIf(ON_POSTGRES)('a role with nothing but its own schema', () => {
  it('is enough for all that worksync does', async () => {
    const { address } = await roleAlone();
    const installation = await openAlone(address);
    const { commit, query } = await installation.store('acme');
    await appendDeliveries(
      query,
      [{ connection: 'github', key: 'k', source: 'webhook', event: 'push', body: Buffer.from('{}') }],
      1,
    );
    const task = { task_id: 't', key: 'BUG-7', source: 's', status: 's', fields: '{}', seen_at: 1 };
    await commit((scope) => saveRows(scope, 'tasks', [task]));
    expect(await readCounts(query)).toMatchObject({ tasks: 1 });
    const server = installation.asServer!;
    expect((await server.time()).clock).toMatch(/^[0-9A-F]{8}$/);
    const heard = await new Promise((resolve) => {
      const end = server.listen('alone', resolve, () => void server.notify('alone', 'bell'));
      onTestFinished(async () => (await end)());
    });
    expect(heard).toBe('bell');
    // As a probe asks.
    const { rows } = await sql`select pg_current_xact_id() is not null as numbered`.execute(installation.query);
    expect(rows).toEqual([{ numbered: true }]);
    const number = await findWorkspace(installation.query, 'acme');
    expect(await forgetWorkspace(installation, number!)).toBe(2);
  });

  it('tells what it may, and what of it is too little', async () => {
    const { address, admin, schema } = await roleAlone();
    const installation = await openAlone(`${address}&connections=2`);
    const facts = async () => judgeServer(schema, await installation.asServer!.facts());
    const known = await installation.asServer!.facts();
    expect(known).toMatchObject({ isSuperuser: false, mayCreate: true, foreign: [], isLocal: true, wanted: 5 });
    expect(known).toMatchObject({ encoding: 'UTF8', isStandby: false, standbys: 0, encrypted: false });
    expect(known.version).toBeGreaterThan(140_000);
    expect(known.free).toBeGreaterThan(0);
    expect(Math.abs(known.ahead)).toBeLessThan(60_000);
    await admin.query(`alter table ${schema}.items owner to current_user`);
    await admin.query(`alter schema ${schema} owner to current_user; grant usage on schema ${schema} to ${schema}`);
    await admin.query(`alter role ${schema} connection limit 4`);
    const found = (await facts()).map(({ message }) => message).join('\n');
    expect(found).toContain('may not make tables');
    expect(found).toContain('another role owns 1 table of the schema (items)');
    expect(found).toMatch(/[0-3] of 4 connections are free; each worksync takes up to 5/);
  });

  it('is told by the durability of its sessions, and by a superuser', async () => {
    const { address, admin, schema } = await roleAlone();
    await admin.query(`alter role ${schema} set synchronous_commit to off`);
    const alone = await openAlone(address);
    expect((await alone.asServer!.facts()).settings['synchronous_commit']).toBe('off');
    const all = await openAlone(`${inject('postgres')}?schema=${schema}`);
    expect(await all.asServer!.facts()).toMatchObject({ isSuperuser: true });
  });
});
