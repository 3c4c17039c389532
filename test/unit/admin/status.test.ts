import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ListedWorkspace, Status } from '../../../src/admin/status/status.ts';
import {
  listBroken,
  listStatus,
  readWholeStatus,
  readWorkspaceList,
  type ServedDaemon,
  worstFirst,
} from '../../../src/admin/status/whole-status.ts';
import { soleHolder } from '../../../src/cluster/lease-holder.ts';
import { SyncError } from '../../../src/model/errors.ts';
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
    async function agree(): Promise<void> {
      expect(await list()).toEqual(await expected());
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
    await query
      .insertInto('polls')
      .values([
        { connection: 'github', unit: 'acme/app', error: 'server_failed: status 502', failed_at: 20 },
        { connection: 'github', unit: 'acme/lost', error: 'not_found: no such repository', failed_at: 10 },
        { connection: 'gone', unit: '*', error: 'forbidden: no scope', failed_at: 30 },
      ])
      .execute();
    const sweep = { connection: 'github', unit: 'acme/old', error: 'not_found: no such repository' };
    await query.insertInto('sweeps').values(sweep).execute();
    const backfill = { connection: 'github', unit: 'acme/app', not_before: 0, started_at: 1, error: 'internal: no' };
    await query.insertInto('backfills').values(backfill).execute();
    await agree();
    world.configure('other', { connections: 'nonsense' });
    await world.reload();
    await agree();
    const all = await list();
    expect(all.map(({ verdict }) => verdict)).toEqual(['blocked', 'degraded']);
    expect(all[1]?.summary).toMatch(/1 connection failing.*2 changes need.*1 delivery quar.*2 repos.*1 backfill fail/);
  });
});
