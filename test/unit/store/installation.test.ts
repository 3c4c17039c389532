import { join } from 'node:path';
import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import type { DaemonContext } from '../../../src/daemon/daemon-context.ts';
import { recordTriageStart } from '../../../src/daemon/webhook-receivers.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import type { WorkspaceConfig } from '../../../src/platform/config/schema.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import {
  addLoginLink,
  addSession,
  consumeLoginLink,
  endAllSessions,
  endSession,
  findSession,
  purgeExpiredLogins,
  touchSession,
} from '../../../src/store/access/session-rows.ts';
import { blankEntity, findEntities, saveEntity } from '../../../src/store/changes/entities.ts';
import { addDifference, updateChange } from '../../../src/store/changes/outbox-rows.ts';
import { bumpClockEra, clampFutureTimestamps, readClockEra } from '../../../src/store/installation/clock-changes.ts';
import { forgetWorkspace } from '../../../src/store/installation/deletions.ts';
import {
  type Installation,
  readInstallationId,
  UNFINISHED_COPY,
} from '../../../src/store/installation/installation.ts';
import { installationRuns, jobRuns } from '../../../src/store/installation/job-runs.ts';
import {
  fenceOf,
  localTime,
  ownerOf,
  ownersOf,
  register,
  removeExpired,
  replicasOf,
  takeLeases,
  unownedOf,
} from '../../../src/store/installation/leases.ts';
import { itemsNamed, saveItemNames } from '../../../src/store/items/item-names.ts';
import { saveItem } from '../../../src/store/items/items.ts';
import { readMeta, setTriagedConnections, triageSince, writeMeta } from '../../../src/store/meta.ts';
import { backoffAfterDbError, retryUntilCommitted } from '../../../src/store/retry-until-committed.ts';
import { countsOf, readCounts } from '../../../src/store/status/counts.ts';
import type { StoreContext } from '../../../src/store/store-context.ts';
import { areTasksUnverified, markTasksUnverified, markTasksVerified } from '../../../src/store/tasks/task-creations.ts';
import { beginUnitOfWork } from '../../../src/store/unit-of-work/unit-of-work.ts';
import { addFindings, beginSweep, readSweeps } from '../../../src/store/workspace/workspace-sweeps.ts';
import { numbersOf } from '../../../src/store/workspace-numbers.ts';
import { type Scope, type Sql, scopeOf } from '../../../src/store/workspace-scope.ts';
import { readPlan } from '../../../src/sync/outbox/planned-writes.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { drawn } from '../../support/harness/depth.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openStore, openTestInstallation } from '../../support/harness/store.ts';
import { itemRow } from '../../support/rows/items.ts';

async function open(): Promise<Installation> {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  return installation;
}

describe('the id of an installation', () => {
  it('stays over restarts, and differs from that of a second installation', async () => {
    const folder = folderOfTest('installation');
    const idIn = async (name: string) => {
      const installation = await openTestInstallation({ file: join(folder, name) });
      await installation.close();
      return installation.id;
    };
    const id = await idIn('one.db');
    expect(id).toMatch(/^[0-9a-f]{12}$/);
    expect(await idIn('one.db')).toBe(id);
    expect(await idIn('other.db')).not.toBe(id);
  });

  it('is created once, and not in a database with an unfinished copy', async () => {
    const { query, id } = await open();
    await query.deleteFrom('installation').execute();
    const created = await readInstallationId(query, systemRandom(), 'here');
    expect(created).not.toBe(id);
    expect(await readInstallationId(query, systemRandom(), 'here')).toBe(created);
    await query.insertInto('installation').values({ name: UNFINISHED_COPY, value: '' }).execute();
    await expect(readInstallationId(query, systemRandom(), 'here')).rejects.toMatchObject({ code: 'copy_unfinished' });
  });
});

test('rejects each commit of a workspace whose fence throws, and runs the fence in the transaction', async () => {
  const installation = await open();
  let isLost = false;
  const store = await installation.store('test', async (transaction) => {
    if (isLost) throw new SyncError('lease_lost', 'it was taken over');
    // Rows that the fence reads are locked until the commit ends.
    expect(transaction.isTransaction).toBe(true);
  });
  for (const commit of [store.commit, store.commitRelaxed]) {
    isLost = false;
    await commit((query) => writeMeta(query, 'fact', 'before'));
    isLost = true;
    await expect(commit((query) => writeMeta(query, 'fact', 'after'))).rejects.toMatchObject({ code: 'lease_lost' });
    expect(await readMeta(store.query, 'fact')).toBe('before');
  }
  const other = await installation.store('other');
  await other.commit((query) => writeMeta(query, 'fact', 'of the other'));
  expect(await readMeta(other.query, 'fact')).toBe('of the other');
});

test.each(['a workspace', 'the installation'])(
  'stores the last run of each job of %s, and replaces all',
  async (of) => {
    const installation = await open();
    const memory = of === 'a workspace' ? jobRuns(await installation.store('test')) : installationRuns(installation);
    const runs = async () => Object.fromEntries(await memory.read());
    expect(await runs()).toEqual({});
    for (const [job, at] of [
      ['sweep', 2],
      ['retention', 3],
      ['sweep', 4],
    ] as const)
      await memory.note(job, at);
    expect(await runs()).toEqual({ sweep: 4, retention: 3 });
    await memory.replace(new Map([['retention', 5]]));
    expect(await runs()).toEqual({ retention: 5 });
    await memory.replace(new Map());
    expect(await runs()).toEqual({});
    expect(await readInstallationId(installation.query, systemRandom(), 'here')).toBe(installation.id);
  },
);

describe('the start of triage', () => {
  const NOON = Date.UTC(2026, 0, 5, 12);
  it.each([
    ['another process recorded', true, ['desk'], ['desk', 'jira']],
    ['the owner recorded', false, ['desk'], ['desk', 'jira']],
  ])('stays as %s it', async (_who, isElsewhere, first, second) => {
    const installation = await open();
    const elsewhere = (connections: readonly string[], now: number) => {
      const configOf = (name: string, triage: readonly object[]) =>
        ({
          name,
          rules: { triage },
          connections: connections.map((each) => ({ name: each })),
        }) as unknown as WorkspaceConfig;
      const context = { installation, clock: createTravellingClock({ start: now }), logger: silentLogger };
      return recordTriageStart([configOf('other', []), configOf('acme', [{}])], context as unknown as DaemonContext);
    };
    const owner = async (connections: readonly string[], now: number) =>
      (await installation.store('acme')).commit((query) => setTriagedConnections(query, connections, now));
    await (isElsewhere ? elsewhere : owner)(first, NOON);
    await (isElsewhere ? owner : elsewhere)(second, NOON + 5_000);
    const { query } = await installation.store('acme');
    expect(await Promise.all(second.map((each) => triageSince(query, each)))).toEqual([NOON, NOON + 5_000]);
    const { query: withoutTriage } = await installation.store('other');
    expect(await triageSince(withoutTriage, 'desk')).toBeUndefined();
  });
});

describe('after the wall clock was set back by a day', () => {
  const NOW = 10_000_000;
  const LATER = NOW + 86_400_000;

  it('known states of the future become older than what is read from now on', async () => {
    const { query } = await openTestStore();
    const times = { past: NOW - 1, present: NOW, future: LATER, never: null };
    for (const [name, known_at] of Object.entries(times))
      await saveEntity(query, blankEntity(name, 'pull_request', { known_at }));
    await clampFutureTimestamps(query, NOW);
    const rows = await findEntities(query, Object.keys(times));
    expect(Object.fromEntries(rows.map((row) => [row.entity, row.known_at]))).toEqual({ ...times, future: NOW });
  });

  it.each([
    ['now verifies them, although they became unverified in the future', LATER, NOW, false],
    ['when they became unverified verifies them', NOW - 5, NOW - 5, false],
    ['earlier does not verify them', NOW - 5, NOW - 6, true],
  ])('a list of unverified tasks that was requested %s', async (_what, unverifiedAt, sentAt, isUnverified) => {
    const { query } = await openTestStore();
    await markTasksUnverified(query, unverifiedAt);
    await clampFutureTimestamps(query, NOW);
    await markTasksVerified(query, sentAt);
    expect(await areTasksUnverified(query)).toBe(isUnverified);
  });

  it('each change of the clock begins another era', async () => {
    const installation = await open();
    const eras = [await readClockEra(installation.query)];
    for (let changes = 0; changes < 2; changes++) {
      await bumpClockEra(installation);
      eras.push(await readClockEra(installation.query));
    }
    expect(eras).toEqual([0, 1, 2]);
  });
});

describe('retryUntilCommitted', () => {
  /** Work that fails so often before it commits, and the times of its attempts. */
  function failingWork(failures: number) {
    const clock = createTravellingClock();
    const tries: number[] = [];
    const random = { ...systemRandom(), float: () => 1 };
    const deps = { clock, logger: silentLogger, random } as unknown as StoreContext;
    const work = async () => {
      tries.push(clock.elapsed());
      if (tries.length <= failures) throw new Error('the disk is full');
    };
    return { clock, tries, deps, work };
  }

  it('repeats work after pauses and resolves after its commit', async () => {
    const { clock, tries, deps, work } = failingWork(2);
    let isOver = false;
    const committed = retryUntilCommitted(deps, work, new AbortController().signal).then(() => (isOver = true));
    await clock.advance(7_999);
    expect([isOver, tries]).toEqual([false, [0, 4_000]]);
    await clock.advance(1);
    await committed;
    expect([tries, clock.pending]).toEqual([[0, 4_000, 8_000], 0]);
  });

  it('ends its pause and stops when the signal aborts', async () => {
    const { clock, tries, deps, work } = failingWork(9);
    const stopping = new AbortController();
    const committed = retryUntilCommitted(deps, work, stopping.signal);
    const paused = backoffAfterDbError(deps, new Error('the disk is full'), stopping.signal);
    await clock.advance(1_000);
    stopping.abort();
    await Promise.all([committed, paused]);
    expect(tries).toEqual([0]);
  });
});

/** Two workspaces of one database that follow the same repository, so that their rows have the same names. */
async function twoWorkspaces(): Promise<readonly [Scope, Scope]> {
  const { query, database } = await openTestStore();
  return [query, scopeOf(database, query.workspace + 1)];
}

const ENTITY = 'pull_request:github:github.com:1:pull:1';

async function addChange(scope: Scope, title: string): Promise<void> {
  await saveEntity(scope, blankEntity(ENTITY, 'pull_request', { desired: JSON.stringify({ title }) }));
  const times = { since: 1, due: 2, weight: 1 };
  await addDifference(scope, { entity: ENTITY, kind: 'pull_request', lane: 'mirror', ...times, waiting: [] });
}

describe('a scope', () => {
  it('reads the writes of a plan of its workspace only', async () => {
    const [own, other] = await twoWorkspaces();
    await addChange(own, 'ours');
    await addChange(other, 'theirs');
    expect((await readPlan(own)).map(({ body }) => body)).toEqual([{ title: 'ours' }]);
    expect((await readPlan(other)).map(({ body }) => body)).toEqual([{ title: 'theirs' }]);
  });

  it('counts the repairs of a sweep of its workspace only', async () => {
    const [own, other] = await twoWorkspaces();
    await beginSweep(own, 1);
    await addFindings(own, [{ what: 'record-changed', entity: ENTITY }], 1);
    await addChange(other, 'theirs');
    await updateChange(other, ENTITY, { state: 'held' });
    expect((await readSweeps(own)).running?.repairs).toEqual({ done: 1, waiting: 0, held: 0 });
  });

  it('finds items by name in its workspace only [A15]', async () => {
    const [own, other] = await twoWorkspaces();
    const key = 'jira:cloud:1';
    await saveItem(own, itemRow(key, { connection: 'ours' }), 1);
    await saveItem(other, itemRow(key, { connection: 'theirs' }), 1);
    await saveItemNames(own, key, {
      names: ['BUG-1'].map((name) => ({ name, place: null, container: null })),
      former: [],
      now: 1,
    });
    expect((await itemsNamed(own, ['BUG-1'])).map(({ connection }) => connection)).toEqual(['ours']);
    expect(await itemsNamed(other, ['BUG-1'])).toEqual([]);
  });
});

describe('leases', () => {
  const NAMES = ['one', 'two', 'three', 'four'];
  const NOW = 1_000;
  const TTL = 3_000;
  const time = localTime({ now: () => NOW });
  const random = systemRandom();

  /** Two processes: one owns the first two workspaces, the other one the third. */
  async function twoProcesses() {
    const installation = await open();
    const { query } = installation;
    const workspaces = await numbersOf(query, NAMES);
    const [a, b] = [random.uuid(), random.uuid()];
    const take = (incarnation: string, some: readonly number[]) =>
      installation.commit((transaction) => takeLeases(transaction, incarnation, some));
    for (const [id, incarnation] of [
      ['a', a],
      ['b', b],
    ] as const)
      await register(query, { id, incarnation, address: `http://${id}`, about: '{}' }, time, TTL);
    await take(a, workspaces.slice(0, 2));
    await take(b, workspaces.slice(2, 3));
    return { installation, query, workspaces, a, b, take };
  }

  /** The ids of the owners by workspace. */
  const owners = async ({ query }: Pick<Installation, 'query'>) =>
    Object.fromEntries((await ownersOf(query)).map(({ workspace, id }) => [workspace, id]));

  const OWNERS = { one: 'a', two: 'a', three: 'b' };

  test('a process takes only workspaces without an owner', async () => {
    const { installation, workspaces, b, take, query } = await twoProcesses();
    const taken = await take(b, workspaces);
    expect([...taken]).toEqual([[workspaces[3], { epoch: 1, isTakeover: false }]]);
    expect(await owners(installation)).toEqual({ ...OWNERS, four: 'b' });
    expect(await unownedOf(query, workspaces)).toEqual([]);
  });

  test('an expired owner is returned only if no time is given', async () => {
    const { query } = await twoProcesses();
    const ids = await Promise.all(
      [undefined, NOW + TTL - 1, NOW + TTL].map(async (livingAt) => (await ownerOf(query, 'one', livingAt))?.id),
    );
    expect(ids).toEqual(['a', 'a', undefined]);
    expect(await ownerOf(query, 'four')).toBeUndefined();
  });

  test('the fence accepts only this workspace, incarnation and epoch', async () => {
    const { installation, workspaces, a, b } = await twoProcesses();
    const [one, , three] = workspaces as [number, number, number];
    const enter = (lease: Parameters<typeof fenceOf>[0]) => installation.commit(fenceOf(lease));
    await enter({ workspace: one, incarnation: a, epoch: 1 });
    for (const other of [
      { workspace: three, incarnation: a, epoch: 1 },
      { workspace: one, incarnation: b, epoch: 1 },
      { workspace: one, incarnation: a, epoch: 2 },
    ])
      await expect(enter(other)).rejects.toMatchObject({ code: 'lease_lost' });
  });

  test('removes one of two expired processes without the other', async () => {
    const { query, a } = await twoProcesses();
    // Both expire at the same time.
    const listed = await replicasOf(query);
    await removeExpired(
      query,
      listed.filter(({ incarnation }) => incarnation === a),
    );
    expect((await replicasOf(query)).map(({ id }) => id)).toEqual(['b']);
  });
});

describe('counts', () => {
  /** Tables of which rows are counted: the column of their names, and the values of the columns by which they are counted. */
  const COUNTED = {
    items: { key: 'key', by: {} },
    tasks: { key: 'task_id', by: {} },
    fetches: { key: 'reference', by: { connection: ['gh', 'jira'] } },
    entities: { key: 'entity', by: { kind: ['link', 'pull_request'], hand: ['removed', 'manual', null] } },
    outbox: {
      key: 'entity',
      by: {
        ...{ kind: ['link', 'read'], state: ['pending', 'sending', 'held'], lane: ['link', 'backfill'] },
        ...{ effect: ['removal', null], guard: ['passed', null] },
      },
    },
  } as const;
  const { key: _, ...ITEM } = itemRow('');
  const REST = {
    items: ITEM,
    tasks: { key: 'BUG-1', source: 'manual', status: 'open', fields: '{}', seen_at: 1 },
    fetches: { since: 1, not_before: 1, delivery_id: 1 },
    entities: {},
    outbox: { since: 1, due: 1, weight: 1, not_before: 0, waiting: '[]' },
  };

  type Table = keyof typeof COUNTED;
  const tables = Object.keys(COUNTED) as Table[];

  /** A write to a counted table: insert or replace a row, delete a row, or change the counted columns of all rows. */
  const write = fc.constantFrom(...tables).chain((table) => {
    const columns = Object.entries<readonly (string | null)[]>(COUNTED[table].by);
    return fc.record({
      table: fc.constant(table),
      does: fc.constantFrom('put', 'put', 'drop', columns.length > 0 ? 'all' : 'put'),
      name: fc.constantFrom('a', 'b', 'c'),
      values: fc.record(Object.fromEntries(columns.map(([name, values]) => [name, fc.constantFrom(...values)]))),
    });
  });
  type Write = typeof write extends fc.Arbitrary<infer Each> ? Each : never;

  async function perform(scope: Scope, { table, does, name, values }: Write): Promise<void> {
    const { key } = COUNTED[table];
    // Kysely cannot type a statement on a table that is a parameter.
    const any = table as 'meta';
    if (does === 'drop') await scope.deleteFrom(any).where(sql.ref(key), '=', name).execute();
    else if (does === 'all')
      await scope
        .updateTable(any)
        .set(values as object)
        .execute();
    else {
      const row = { ...REST[table], [key]: name, ...values } as never;
      const insert = scope.insertInto(any).values(row);
      await insert.onConflict((conflict) => conflict.columns(['workspace', key] as never).doUpdateSet(row)).execute();
    }
  }

  /** Compares the counts with those by reading every row. */
  async function expectCounted(query: Sql, ...workspaces: readonly number[]): Promise<void> {
    const counts = await countsOf(query, workspaces);
    for (const workspace of workspaces) {
      const { items, tasks, fetches, entities, changes } = counts(workspace);
      const counted = { items, tasks, fetches, entities, outbox: changes };
      for (const table of tables) {
        const columns = Object.keys(COUNTED[table].by).map((column) => sql.ref(column));
        const { rows } = await sql<{ count: number }>`
        select ${sql.join([...columns, sql`count(*) as count`])} from ${sql.table(table)} where workspace = ${workspace}
        ${columns.length === 0 ? sql`` : sql`group by ${sql.join(columns)}`}`.execute(query);
        const found = counted[table];
        if (typeof found === 'number') expect([table, found]).toEqual([table, rows[0]?.count]);
        else expect([table, found.length, found]).toEqual([table, rows.length, expect.arrayContaining(rows)]);
      }
    }
  }

  test('counts equal the numbers of rows after any writes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.constantFrom(1, 2), write), { maxLength: 40 }), async (writes) => {
        const store = await openStore({ file: ':memory:' });
        for (const [workspace, each] of writes) await perform(scopeOf(store.database, workspace), each);
        await expectCounted(store.database, 1, 2);
        expect(await store.database.selectFrom('counts').select('count').where('count', '<', 0).execute()).toEqual([]);
        await store.close();
      }),
      { numRuns: drawn(60) },
    );
  });

  test('a deleted workspace leaves no counts', async () => {
    const installation = await open();
    const { query } = await installation.store('acme');
    await perform(query, { table: 'items', does: 'put', name: 'a', values: {} });
    expect(await forgetWorkspace(installation, query.workspace)).toBe(1);
    expect(await installation.query.selectFrom('counts').selectAll().execute()).toEqual([]);
  });

  test('counts what a unit of work has not written yet', async () => {
    const { commit } = await openTestStore();
    await commit(async (transaction) => {
      const query = beginUnitOfWork(transaction);
      const times = { since: 1, due: 1, weight: 1, waiting: [] };
      await addDifference(query, { entity: 'read:tasks', kind: 'read', lane: 'read', ...times });
      expect((await readCounts(query)).changes).toMatchObject([{ kind: 'read', state: 'pending', count: 1 }]);
    });
  });
});

describe('log-ins', () => {
  const LIMITED = { role: 'read', workspaces: ['acme', 'beta'] } as const;
  const SESSION = { digest: 'aa', ...LIMITED, openedBy: 'dd', createdAt: 1, seenAt: 2 };

  it('purge expired rows, and end all sessions together with unused links', async () => {
    const { query } = await open();
    for (const [digest, expiresAt] of [
      ['aa', 100],
      ['bb', 101],
    ] as const) {
      await addSession(query, { ...SESSION, digest, expiresAt });
      await addLoginLink(query, { digest, ...LIMITED, expiresAt });
    }
    const digests = async () => [
      await query.selectFrom('sessions').select('digest').execute(),
      await query.selectFrom('login_links').select('digest').execute(),
    ];
    await purgeExpiredLogins(query, 100);
    expect(await digests()).toEqual([[{ digest: 'bb' }], [{ digest: 'bb' }]]);
    expect(await endAllSessions(query)).toBe(1);
    expect(await digests()).toEqual([[], []]);
  });

  it('accept a link once, and not after it expired', async () => {
    const { query } = await open();
    await addLoginLink(query, { digest: 'aa', ...LIMITED, expiresAt: 100 });
    await addLoginLink(query, { digest: 'bb', role: 'admin', workspaces: null, expiresAt: 100 });
    expect(await consumeLoginLink(query, 'cc', 1)).toBeUndefined();
    expect(await consumeLoginLink(query, 'aa', 99)).toEqual(LIMITED);
    expect(await consumeLoginLink(query, 'aa', 99)).toBeUndefined();
    expect(await consumeLoginLink(query, 'bb', 100)).toBeUndefined();
  });

  it('find a session until it expires or ends', async () => {
    const { query } = await open();
    await addSession(query, { ...SESSION, expiresAt: 100 });
    expect(await findSession(query, 'aa', 99)).toEqual(SESSION);
    expect(await findSession(query, 'aa', 100)).toBeUndefined();
    await touchSession(query, { digest: 'aa', seenAt: 90, expiresAt: 200 });
    expect(await findSession(query, 'aa', 100)).toEqual({ ...SESSION, seenAt: 90 });
    await endSession(query, 'aa');
    expect(await findSession(query, 'aa', 1)).toBeUndefined();
  });
});
