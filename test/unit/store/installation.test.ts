import { join } from 'node:path';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import type { DaemonContext } from '../../../src/daemon/daemon-context.ts';
import { recordTriageStart } from '../../../src/daemon/webhook-receivers.ts';
import { SyncError } from '../../../src/model/errors.ts';
import type { WorkspaceConfig } from '../../../src/platform/config/schema.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { blankEntity, findEntities, forgetEntity, saveEntity } from '../../../src/store/changes/entities.ts';
import { addDifference, removeChange, updateChange } from '../../../src/store/changes/outbox-rows.ts';
import { clampFutureTimestamps } from '../../../src/store/installation/clock-changes.ts';
import { type Installation, readInstallationId } from '../../../src/store/installation/installation.ts';
import { installationRuns, jobRuns } from '../../../src/store/installation/job-runs.ts';
import {
  fenceOf,
  localTime,
  ownerOf,
  ownersOf,
  register,
  takeLeases,
  unownedOf,
} from '../../../src/store/installation/leases.ts';
import { itemsNamed, saveItemNames } from '../../../src/store/items/item-names.ts';
import { saveItem } from '../../../src/store/items/items.ts';
import { readMeta, setTriagedConnections, triageSince, writeMeta } from '../../../src/store/meta.ts';
import { retryUntilCommitted } from '../../../src/store/retry-until-committed.ts';
import { readCounts } from '../../../src/store/status/counts.ts';
import { saveTask } from '../../../src/store/tasks/stored-tasks.ts';
import { areTasksUnverified, markTasksUnverified, markTasksVerified } from '../../../src/store/tasks/task-creations.ts';
import { beginUnitOfWork } from '../../../src/store/unit-of-work/unit-of-work.ts';
import { numbersOf, type Scope, scopeOf } from '../../../src/store/workspace-scope.ts';
import type { WorkspaceContext } from '../../../src/sync/workspace-context.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openTestInstallation } from '../../support/harness/store.ts';
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

test('stores the last run of each job of a workspace and of the installation, and replaces all', async () => {
  const installation = await open();
  for (const memory of [jobRuns(await installation.store('test')), installationRuns(installation)]) {
    const runs = async () => Object.fromEntries(await memory.read());
    for (const [index, job] of ['sweep', 'retention', 'sweep'].entries()) await memory.note(job, index);
    expect(await runs()).toEqual({ sweep: 2, retention: 1 });
    await memory.replace(new Map([['retention', 5]]));
    expect(await runs()).toEqual({ retention: 5 });
  }
  expect(await readInstallationId(installation.query, systemRandom(), 'here')).toBe(installation.id);
});

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
});

it('repeats work that could not be committed after pauses, until it is', async () => {
  const clock = createTravellingClock();
  const tries: number[] = [];
  const random = { ...systemRandom(), float: () => 1 };
  const deps = { clock, logger: silentLogger, random } as unknown as WorkspaceContext;
  const work = async () => {
    tries.push(clock.elapsed());
    if (tries.length <= 2) throw new Error('the disk is full');
  };
  const committed = retryUntilCommitted(deps, work, new AbortController().signal);
  await clock.advance(8_000);
  await committed;
  expect([tries, clock.pending]).toEqual([[0, 4_000, 8_000], 0]);
});

/** Two workspaces of one database that follow the same repository, so that their rows have the same names. */
async function twoWorkspaces(): Promise<readonly [Scope, Scope]> {
  const { query, database } = await openTestStore();
  return [query, scopeOf(database, query.workspace + 1)];
}

describe('a scope', () => {
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
});

describe('counts', () => {
  test('follow rows that are inserted, replaced, changed and deleted, in each workspace by itself', async () => {
    const [own, other] = await twoWorkspaces();
    const change = (scope: Scope, entity: string, kind: 'link' | 'read') =>
      addDifference(scope, { entity, kind, lane: kind, since: 1, due: 1, weight: 1, waiting: [] });
    const task = { taskId: 't', key: 'BUG-1', title: '', source: 'api', status: 'open', updatedAt: '' };
    for (const scope of [own, own, other]) {
      await saveItem(scope, itemRow('a'), 1);
      await saveTask(scope, task, 1);
      await change(scope, 'link:a', 'link');
    }
    await saveItem(own, itemRow('b'), 1);
    await change(own, 'read:a', 'read');
    await removeChange(own, 'read:a');
    await updateChange(own, 'link:a', { state: 'held' });
    await saveEntity(own, blankEntity('link:a', 'link'));
    await saveEntity(own, blankEntity('link:a', 'link', { hand: 'removed' }));
    await saveEntity(own, blankEntity('link:b', 'link'));
    await forgetEntity(own, 'link:b');
    expect(await readCounts(own)).toMatchObject({
      ...{ items: 2, tasks: 1, fetches: [], entities: [{ kind: 'link', hand: 'removed', count: 1 }] },
      changes: [{ kind: 'link', state: 'held', count: 1 }],
    });
    expect(await readCounts(other)).toMatchObject({
      ...{ items: 1, tasks: 1, fetches: [], entities: [] },
      changes: [{ kind: 'link', state: 'pending', count: 1 }],
    });
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
