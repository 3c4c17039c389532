import { join } from 'node:path';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { bumpClockEra, clampFutureTimestamps, readClockEra } from '../../../src/store/clock-changes.ts';
import { blankEntity, findEntities, saveEntity } from '../../../src/store/entities.ts';
import { type Installation, readInstallationId, UNFINISHED_COPY } from '../../../src/store/installation.ts';
import { installationRuns, jobRuns } from '../../../src/store/job-runs.ts';
import {
  readMeta,
  recordTriageStarts,
  setTriagedConnections,
  triageSince,
  writeMeta,
} from '../../../src/store/meta.ts';
import { findChange } from '../../../src/store/outbox-rows.ts';
import { backoffAfterDbError, retryUntilCommitted } from '../../../src/store/retry-until-committed.ts';
import { currentRevision, nextRevision } from '../../../src/store/revision.ts';
import {
  addLoginLink,
  addSession,
  consumeLoginLink,
  endAllSessions,
  endSession,
  findSession,
  purgeExpiredLogins,
  touchSession,
} from '../../../src/store/session-rows.ts';
import { areTasksUnverified, markTasksUnverified, markTasksVerified } from '../../../src/store/task-creations.ts';
import { numbersOf } from '../../../src/store/workspace-numbers.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openTestInstallation } from '../../support/harness/store.ts';
import { waits } from '../../support/rows/changes.ts';

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
    const elsewhere = async (connections: readonly string[], now: number) => {
      const workspaces = await numbersOf(installation.query, ['acme', 'other']);
      await recordTriageStarts(
        installation.query,
        workspaces.map((workspace) => ({ workspace, connections })),
        now,
      );
    };
    const owner = async (connections: readonly string[], now: number) =>
      (await installation.store('acme')).commit((query) => setTriagedConnections(query, connections, now));
    await (isElsewhere ? elsewhere : owner)(first, NOON);
    await (isElsewhere ? owner : elsewhere)(second, NOON + 5_000);
    const { query } = await installation.store('acme');
    expect(await Promise.all(second.map((each) => triageSince(query, each)))).toEqual([NOON, NOON + 5_000]);
  });
});

test('numbers requests by revisions from 1 on', async () => {
  const { query } = await openTestStore();
  expect(await currentRevision(query)).toBe(0);
  expect([await nextRevision(query), await nextRevision(query)]).toEqual([1, 2]);
  expect(await currentRevision(query)).toBe(2);
});

describe('log-ins', () => {
  const LIMITED = { role: 'read', workspaces: ['acme', 'beta'] } as const;
  const SESSION = { digest: 'aa', ...LIMITED, openedBy: 'dd', createdAt: 1, seenAt: 2 };

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

  it('changes of the future become due now', async () => {
    const { query } = await openTestStore();
    const name = entity.task('jira:cloud:1');
    await waits(query, name, { kind: 'task', lane: 'triage', since: LATER, due: LATER });
    await clampFutureTimestamps(query, NOW);
    expect(await findChange(query, name)).toMatchObject({ since: NOW, due: NOW });
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
    const deps = { clock, logger: silentLogger, random: { ...systemRandom(), float: () => 1 } };
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
