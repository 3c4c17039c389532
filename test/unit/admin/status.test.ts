import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCauseTimes } from '../../../src/admin/status/describe-open-workspace.ts';
import type { ListedWorkspace, Status } from '../../../src/admin/status/status.ts';
import { WARNINGS } from '../../../src/admin/status/verdict.ts';
import {
  listBroken,
  listStatus,
  readWholeStatus,
  readWorkspaceList,
  type ServedDaemon,
  worstFirst,
} from '../../../src/admin/status/whole-status.ts';
import { describeStatus } from '../../../src/cli/status/status.ts';
import { soleHolder } from '../../../src/cluster/lease-holder.ts';
import { CODES, SyncError } from '../../../src/model/errors.ts';
import { createWorld, GITHUB, type World } from '../../support/harness/daemon.ts';
import { CONNECTION, EMPTY, NOW, statusWith } from '../../support/harness/web.ts';
import { pullEvent } from '../../support/vendors/github-payloads.ts';

type Parts = NonNullable<Parameters<typeof statusWith>[0]>;

/** A day with failures: few changes are synced, many are held, and both sources are dead. */
const unreachable = { code: 'unreachable', message: 'no route', hint: 'check it', unit: null, at: NOW };
const DEAD: Parts = {
  connections: ['github', 'jira'].map((name) => ({ ...CONNECTION, name, failure: unreachable })),
  pullRequests: { total: 260, waiting: 236 },
  links: { total: 64, waiting: 58 },
  deliveries: { ...EMPTY.deliveries, quarantined: 3 },
  changes: { ...EMPTY.changes, byState: { pending: 200, sending: 0, unknown: 0, held: 94 } },
};

describe('the verdict', () => {
  it('of a workspace that is idle, or only waits for the quota, is ok', () => {
    expect(statusWith().workspaces[0]).toMatchObject({ verdict: 'ok', causes: [] });
    expect(statusWith().verdict).toBe('ok');
  });

  it('says what is synced of what should be, and everything that is wrong, in one sentence', () => {
    const [workspace] = statusWith(DEAD).workspaces;
    expect(workspace).toMatchObject({
      verdict: 'degraded',
      summary:
        '24 of 260 pull requests synced, 6 of 64 links; connections_failing: 2 connections failing (github: unreachable, jira: unreachable); ' +
        'changes_held: 94 changes need approval; deliveries_quarantined: 3 deliveries quarantined',
    });
    expect(workspace?.causes.map(({ code, count }) => [code, count])).toEqual([
      ['connections_failing', 2],
      ['changes_held', 94],
      ['deliveries_quarantined', 3],
    ]);
  });

  it('says when the rest is done, unless it soon is or everything stands still', () => {
    const backlog = {
      requests: 230,
      backfill: 30,
      doneAt: NOW + 28 * 60_000 + 4_000,
      lastSentAt: NOW + 28 * 60_000 + 4_000,
      held: 94,
    };
    const summaryOf = (parts: Parts) => statusWith(parts).workspaces[0]?.summary;
    expect(summaryOf({ backlog })).toMatch(/; the rest done in about 28 minutes, without what needs approval$/);
    expect(summaryOf({ backlog: { ...backlog, held: 0, doneAt: NOW + 5 * 3_600_000 } })).toMatch(/in about 5 hours$/);
    expect(summaryOf({ backlog: { ...backlog, doneAt: NOW + 9_000 } })).not.toContain('done');
    expect(summaryOf({ backlog, halt: new SyncError('database_corrupt', 'page 7') })).not.toContain('done');
  });

  it('dates each cause: by the facts, else by when it was first seen', () => {
    const times = createCauseTimes();
    const held = {
      byState: { ...EMPTY.changes.byState, held: 2 },
      heldSeen: { since: NOW - 9_000, seenAt: NOW - 5_000 },
    };
    const changes = { ...EMPTY.changes, ...held };
    const dated = (parts: Parts) =>
      statusWith({ ...parts, times }).workspaces[0]?.causes.map(({ code, since, seenAt }) => [code, since, seenAt]);
    const halt = new SyncError('database_corrupt', 'page 7 is damaged');
    expect(dated({ changes, halt })).toEqual([
      ['database_corrupt', NOW, NOW],
      ['changes_held', NOW - 9_000, NOW - 5_000],
    ]);
    expect(dated({ halt, now: NOW + 1_000 })).toEqual([['database_corrupt', NOW, NOW + 1_000]]);
    expect(dated({ now: NOW + 2_000 })).toEqual([]);
    expect(dated({ halt, now: NOW + 3_000 })).toEqual([['database_corrupt', NOW + 3_000, NOW + 3_000]]);
  });

  it('says that a cause began no later than it was last seen', () => {
    const times = createCauseTimes();
    const failure = { ...unreachable, at: NOW - 6_000 };
    const [workspace] = statusWith({ connections: [{ ...CONNECTION, failure }], times }).workspaces;
    expect(workspace?.causes).toMatchObject([{ since: NOW - 6_000, seenAt: NOW - 6_000 }]);
  });

  it('is blocked by whatever keeps everything from being sent or stored, and that comes first', () => {
    const halt = new SyncError('database_corrupt', 'page 7 is damaged');
    const { verdict, workspaces } = statusWith({ ...DEAD, halt });
    expect([verdict, workspaces[0]?.causes[0]]).toMatchObject(['blocked', { code: 'database_corrupt', count: 1 }]);
    expect(workspaces[0]?.summary).toContain(
      'links; database_corrupt: page 7 is damaged; connections_failing: 2 connections',
    );
  });

  it('of the whole is the worst of all, and blocked while the process cannot store webhooks', () => {
    expect(statusWith({}, { ready: false }).verdict).toBe('blocked');
    const broken = [{ name: 'other', code: 'config_invalid', message: 'm', hint: 'h' }];
    expect(statusWith({}, { broken }).verdict).toBe('blocked');
    expect(statusWith(DEAD).verdict).toBe('degraded');
  });

  it('has a code of its own for each warning, a remedy, and none that an error has', () => {
    const codes = WARNINGS.map(({ code }) => code);
    expect(new Set(codes).size).toBe(codes.length);
    expect(codes.filter((code) => code in CODES)).toEqual([]);
    for (const { hint, stops } of WARNINGS) {
      expect(hint).toMatch(/^[A-Z].*\.$/);
      expect(stops).toMatch(/^\w.*\.$/);
    }
  });
});

describe('worksync status', () => {
  it('says in one line why many changes are held, and what still is to be sent', () => {
    const failure = { code: 'guard_held', message: 'too many creations', hint: 'release' };
    const stuck = Array.from({ length: 20 }, (_, index) => ({
      ...{
        entity: `pull_request:github/1/${index}`,
        label: `record of acme/web#${index}`,
        kind: 'pull_request',
        lane: 'mirror',
        state: 'held',
      },
      ...{ since: NOW, notBefore: 0, attempts: 0, failure },
    })) as (typeof EMPTY)['changes']['stuck'];
    const backlog = { requests: 95, backfill: 5, doneAt: NOW + 180_000, lastSentAt: NOW + 180_000, held: 20 };
    const text = describeStatus(statusWith({ backlog, changes: { ...EMPTY.changes, stuck } }));
    expect(text.match(/too many creations/g)).toHaveLength(1);
    expect(text).toContain('held: too many creations: record of acme/web#0, record of acme/web#1,');
    expect(text).toContain('; 95 requests to send (5 for backfills), the last in 3 min\n');
  });

  it('never says "running" alone where something is wrong', () => {
    const text = describeStatus(statusWith(DEAD));
    expect(text).toMatch(/^worksync 0\.1\.0 \(schema \d+, protocol \d+\), DEGRADED, up for /);
    expect(text).toContain(
      '  state       DEGRADED, running\n    connections_failing: 2 connections failing (github: unreachable, jira: unreachable). ',
    );
    expect(text).toContain('    changes_held: 94 changes need approval. List them with "worksync held"');
    expect(text).toContain('  synced      24 of 260 pull requests, 6 of 64 links\n');
    expect(describeStatus(statusWith())).toContain('  state       ok, running\n');
  });

  it('is never NOT READY without a reason', () => {
    const full = statusWith({}, { ready: false, components: { server: 'ok', disk: 'disk_full' } });
    expect(describeStatus(full)).toMatch(
      /^worksync 0\.1\.0 \(schema \d+, protocol \d+\), NOT READY \(disk: disk_full\), up for/,
    );
    expect(describeStatus(statusWith({}, { ready: false, components: {} }))).toContain('NOT READY (starting)');
  });

  it('shows a workspace that did not start, each place on a line of its own', () => {
    const broken = [
      { name: 'other', code: 'config_invalid', message: 'a.yaml:1:1: x\na.yaml:2:1: y', hint: 'Correct it.' },
    ];
    expect(describeStatus(statusWith({}, { broken }))).toContain(
      'workspace other\n  state       BLOCKED config_invalid: Correct it.\n    a.yaml:1:1: x\n    a.yaml:2:1: y',
    );
  });
});

describe('the status of all workspaces', () => {
  let world: World;

  beforeAll(async () => {
    world = await createWorld({
      config: { connections: { github: GITHUB }, guard: { creations: 2 } },
    });
  });
  afterAll(() => world.close());

  const parts = () => ({
    ...{ clock: world.clock, installation: world.installation(), workspaces: world.workspaces() },
  });

  function list(): Promise<readonly ListedWorkspace[]> {
    return readWorkspaceList(parts() as Partial<ServedDaemon> as ServedDaemon);
  }

  /** Returns the list as it follows from the complete statuses. */
  async function expected(): Promise<readonly ListedWorkspace[]> {
    const { workspaces, broken } = await world.daemon().status();
    return worstFirst([...broken.map(listBroken), ...workspaces.map(listStatus)]);
  }

  /** The status that this replica gives if the other one answers so. */
  async function wholeWith(answer: Partial<Status> | undefined, failure?: string): Promise<Status> {
    const facts = { config: '', version: '1', startedAt: 0, adminAddress: undefined };
    const replica = { ...facts, id: 'b', host: 'other', address: 'http://b.example', isOwn: false };
    const holder = { ...soleHolder, replicas: () => [{ ...replica, id: 'a', host: 'own', isOwn: true }, replica] };
    const requestAll = async () => [{ replica, answer, failure }];
    return readWholeStatus({
      ...parts(),
      ...{ version: '1', startedAt: 0, configFault: () => undefined },
      health: { report: () => ({ ready: true, components: {} }) } as never,
      sharing: { holder, replicas: { requestAll } as never },
    } as Partial<ServedDaemon> as ServedDaemon);
  }

  describe('the status of several replicas', () => {
    const OTHER = { workspaces: [], broken: [], ready: true, components: {}, configFault: null };

    it('is ok if both are', async () => {
      await world.settled();
      expect(await wholeWith(OTHER)).toMatchObject({ verdict: 'ok', shared: { causes: [] } });
    });

    it.each<[what: string, answer: Partial<Status> | undefined, cause: object | undefined]>([
      [
        'cannot store webhooks',
        { ...OTHER, ready: false, components: { store: 'database_away' } },
        { code: 'replica_not_ready', message: 'replica other is not ready (store: database_away)' },
      ],
      [
        'could not reload its configuration',
        { ...OTHER, configFault: { code: 'config_invalid', message: 'line 3', hint: 'Correct it.' } },
        { code: 'config_invalid', message: 'replica other could not reload its configuration: line 3' },
      ],
      ['does not answer', undefined, { code: 'replica_silent', message: '1 replica did not answer (other: HTTP 500)' }],
      [
        'has a broken workspace',
        { ...OTHER, broken: [{ name: 'x', code: 'internal', message: '', hint: '' }] },
        undefined,
      ],
    ])('names the trouble if only the other one %s', async (_what, answer, cause) => {
      const { verdict, shared } = await wholeWith(answer, answer === undefined ? 'HTTP 500' : undefined);
      expect(verdict).not.toBe('ok');
      expect(shared?.causes).toEqual(cause === undefined ? [] : [expect.objectContaining(cause)]);
    });
  });

  it('the list of all workspaces says the same as the status of each, whatever is wrong', async () => {
    const { query } = world.partition().store;
    const verdicts: string[] = [];
    const summaries: string[] = [];
    async function agree(): Promise<void> {
      const all = await list();
      expect(all).toEqual(await expected());
      verdicts.push(...all.map(({ verdict }) => verdict));
      summaries.push(...all.map(({ summary }) => summary));
    }

    await world.settled();
    await agree();
    const updated = new Date(world.clock.now()).toISOString();
    for (const number of [1, 2, 3, 4])
      await world.deliver(
        'pull_request',
        pullEvent({ number, title: `Change ${number}`, updated, isOfStranger: true }, 'opened'),
      );
    await world.deliver('pull_request', { action: 'opened', number: 'none' }, { id: 'broken-one' });
    await world.until(async () => {
      const [only] = await list();
      return only?.held === 2 && only.waiting === 0;
    });
    await agree();
    await query
      .insertInto('polls')
      .values([
        { connection: 'github', unit: 'acme/app', error: 'server_failed: status 502', failed_at: 20 },
        { connection: 'github', unit: 'acme/lost', error: 'not_found: no such repository', failed_at: 10 },
        { connection: 'gone', unit: '*', error: 'forbidden: no scope', failed_at: 30 },
      ])
      .execute();
    await agree();
    await query
      .insertInto('sweeps')
      .values({ connection: 'github', unit: 'acme/old', error: 'not_found: no such repository' })
      .execute();
    await agree();
    const backfill = { connection: 'github', unit: 'acme/app', not_before: 0, started_at: 1, error: 'internal: no' };
    await query.insertInto('backfills').values(backfill).execute();
    await agree();
    world.configure('other', { connections: 'nonsense' });
    await world.reload();
    await agree();
    expect(verdicts).toEqual(['ok', ...Array(4).fill('degraded'), 'blocked', 'degraded']);
    expect(summaries.at(-1)).toMatch(/1 connection failing.*2 changes need.*1 delivery quar.*2 repos.*1 backfill fail/);
  });
});
