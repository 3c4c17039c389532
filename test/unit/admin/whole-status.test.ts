import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Status, WorkspaceStatus } from '../../../src/admin/status.ts';
import { readWholeStatus, readWorkspaceList } from '../../../src/admin/whole-status.ts';
import { type ListedWorkspace, listBroken, worstFirst } from '../../../src/admin/workspace-list.ts';
import { soleHolder } from '../../../src/cluster/lease-holder.ts';
import { createWorld, GITHUB, type World } from '../../support/harness/daemon.ts';
import { pullEvent } from '../../support/vendors/github-payloads.ts';

let world: World;

beforeAll(async () => {
  world = await createWorld({
    config: { connections: { github: GITHUB }, guard: { creations: 2 } },
  });
});
afterAll(() => world.close());

function list(): Promise<readonly ListedWorkspace[]> {
  return readWorkspaceList({
    ...{ clock: world.clock, installation: world.installation(), workspaces: world.workspaces() },
  });
}

/** The same from the whole statuses. */
async function expected(): Promise<readonly ListedWorkspace[]> {
  const { workspaces, broken } = await world.daemon().status();
  return worstFirst([...broken.map(listBroken), ...workspaces.map(listed)]);
}

function listed({ name, verdict, summary, changes: { byState }, quota: { long } }: WorkspaceStatus): ListedWorkspace {
  const { pending, sending, held } = byState;
  return { name, verdict, summary, waiting: pending + sending, held, quota: { used: long.used, cap: long.cap } };
}

/** The status that this replica gives if the other one answers so. */
async function wholeWith(answer: Partial<Status> | undefined, failure?: string): Promise<Status> {
  const facts = { config: '', version: '1', startedAt: 0, adminAddress: undefined };
  const replica = { ...facts, id: 'b', host: 'other', address: 'http://b.example', isOwn: false };
  const holder = { ...soleHolder, replicas: () => [{ ...replica, id: 'a', host: 'own', isOwn: true }, replica] };
  const requestAll = async () => [{ replica, answer, failure }];
  return readWholeStatus({
    ...{ clock: world.clock, installation: world.installation(), workspaces: world.workspaces() },
    ...{ version: '1', startedAt: 0, configFault: () => undefined },
    health: { report: () => ({ ready: true, components: {} }) },
    sharing: { holder, replicas: { requestAll } as never },
  });
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

describe('the list of all workspaces', () => {
  it('says the same as the status of each, whatever is wrong', async () => {
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
