import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Status } from '../../src/admin/status/status.ts';
import { askOwner } from '../../src/cli/owner.ts';
import type { Finding } from '../../src/connectors/connector.ts';
import { cookieOf } from '../support/harness/browser-session.ts';
import { openReplicas, type TestReplica, type TestReplicas } from '../support/postgres/replicas.ts';

/** Three processes over one PostgreSQL: whoever is asked, the one that works on the workspace answers. */

const ADMIN = 'the-token-of-the-admin-nobody-can-guess';
const READ = 'the-token-of-a-reader-nobody-can-guess';
const LIMITED = 'the-token-for-the-first-one-nobody-can-guess';
const WORKSPACES = ['first', 'second'];

let world: TestReplicas;
let one: TestReplica;
let other: TestReplica;
beforeAll(async () => {
  world = await openReplicas({
    workspaces: WORKSPACES,
    tokens: [
      { secret: ADMIN, role: 'admin', workspaces: null },
      { secret: READ, role: 'read', workspaces: null },
      { secret: LIMITED, role: 'admin', workspaces: ['first'] },
    ],
  });
  [one, other] = [await world.join(), await world.join()];
  await settled();
});
afterAll(() => world.close());

/** Each of the two works on one workspace, and each knows where the other one answers. */
async function settled(): Promise<void> {
  const look = async () => {
    expect([one.open().length, other.open().length]).toEqual([1, 1]);
    const { shared, workspaces } = await one.daemon.status();
    expect([workspaces.length, shared?.replicas.map(({ holds }) => holds?.length)]).toEqual([2, [1, 1]]);
  };
  await vi.waitFor(look, { timeout: 300_000, interval: 20 });
}

const theirs = () => other.open()[0] as string;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const json = { 'content-type': 'application/json' };

describe('a command beside a replica', () => {
  it('is answered by the one that works on the workspace, with the name of its user in the audit', async () => {
    const path = `/admin/workspaces/${theirs()}`;
    await askOwner(one.dataFolder, 'POST', `${path}/questions/sweep`, {});
    const { entries } = await askOwner<{ entries: { actor: string; action: string; workspace: string }[] }>(
      one.dataFolder,
      'POST',
      `${path}/questions/audit`,
      { since: null, before: null, limit: 10 },
    );
    expect(entries).toContainEqual(
      expect.objectContaining({ action: 'sweep', workspace: theirs(), actor: expect.stringMatching(/^command \w/) }),
    );
  });

  it('sees all workspaces in one status, who works on them, and that nothing is wrong', async () => {
    const status = await askOwner<Status>(one.dataFolder, 'GET', '/status.json');
    expect(status).toMatchObject({ verdict: 'ok', broken: [], elsewhere: [], shared: { causes: [] } });
    expect(status.workspaces.map(({ name }) => name).sort()).toEqual(WORKSPACES);
    const holds = status.shared?.replicas.map((each) => [each.isOwn, each.holds?.map(({ workspace }) => workspace)]);
    expect(new Map(holds as [boolean, string[]][])).toEqual(
      new Map([
        [true, one.open()],
        [false, other.open()],
      ]),
    );
  });

  it('that may know of one workspace only is told of that one, whoever works on it', async () => {
    const asked = await fetch(`${one.adminAddress}/admin/check`, {
      method: 'POST',
      headers: { ...bearer(LIMITED), ...json },
      body: '{}',
    });
    const findings = (await asked.json()) as Finding[];
    expect(findings.some(({ subject }) => subject.startsWith('first: '))).toBe(true);
    expect(JSON.stringify(findings)).not.toContain('second');
  });

  it('forgets no workspace that another one works on', async () => {
    const asked = askOwner(one.dataFolder, 'POST', '/admin/forget', { workspace: theirs() });
    await expect(asked).rejects.toMatchObject({ code: 'conflict' });
  });
});

describe('a caller of the pages', () => {
  it('who is logged in at one replica sees the pages of all, and acts there', async () => {
    const cookie = await cookieOf(other.adminAddress, { token: ADMIN });
    const address = `${one.adminAddress}/workspaces/${theirs()}`;
    const page = await fetch(address, { headers: { cookie } });
    const text = await page.text();
    expect([page.status, page.headers.get('content-security-policy')]).toEqual([
      200,
      expect.stringContaining("'self'"),
    ]);
    expect(text).toContain('Everything works');
    const token = /name="page" type="hidden" value="([^"]+)"/.exec(text)?.[1] ?? '';
    const post = (form: Record<string, string>) =>
      fetch(`${address}/rules`, {
        method: 'POST',
        headers: { cookie, origin: one.adminAddress, 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams(form),
      });
    expect((await post({ page: token, config: 'nonsense' })).status).toBe(422);
    expect((await post({ page: 'another', config: 'nonsense' })).status).toBe(403);
  });

  it('who is limited to one workspace is refused the other one, wherever it is', async () => {
    for (const replica of [one, other]) {
      const look = async (path: string) =>
        (await fetch(replica.adminAddress + path, { headers: bearer(LIMITED) })).status;
      expect(await look('/workspaces/first')).toBe(200);
      expect(await look('/workspaces/second')).toBe(403);
      const status = (await (
        await fetch(`${replica.adminAddress}/status.json`, { headers: bearer(LIMITED) })
      ).json()) as Status;
      expect(status).toMatchObject({ workspaces: [{ name: 'first' }], shared: { replicas: [] } });
    }
  });
});

describe('a job', () => {
  const tokenFor = (workspace: string) =>
    askOwner<{ id: string; secret: string }>(one.dataFolder, 'POST', `/admin/workspaces/${workspace}/gateway-tokens`, {
      description: 'a job',
    });
  const tasks = (replica: TestReplica, credential: string, workspace = 'current') =>
    fetch(`${replica.address}/api/v1/workspaces/${workspace}/tasks`, { headers: bearer(credential) });

  it('reaches its workspace at the gateway of every replica by a token, until the token is revoked anywhere', async () => {
    const { id, secret } = await tokenFor(theirs());
    // The others hear of it a moment later.
    for (const replica of [one, other]) await expect.poll(async () => (await tasks(replica, secret)).status).toBe(200);
    const ci = (replica: TestReplica) =>
      fetch(`${replica.address}/ci/pull-request?target=acme/app%231`, { headers: bearer(secret) });
    for (const replica of [one, other]) expect((await ci(replica)).status).toBe(200);
    await askOwner(other.dataFolder, 'POST', `/admin/workspaces/${theirs()}/gateway-tokens/revoke`, { id });
    await expect.poll(async () => (await tasks(one, secret)).status).toBe(401);
    expect((await ci(one)).status).toBe(401);
  });

  it('writes once, and the answer of the workspace comes back as it is', async () => {
    const created = await fetch(`${one.address}/api/v1/workspaces/${theirs()}/bugs`, {
      method: 'POST',
      headers: { ...bearer(world.apiKey), ...json },
      body: JSON.stringify({ title: 'Written through another replica' }),
    });
    const task = (await created.json()) as { title: string };
    expect([created.status, task.title]).toEqual([201, 'Written through another replica']);
    const list = await (await tasks(other, world.apiKey, theirs())).text();
    expect(list.split('Written through another replica')).toHaveLength(2);
  });
});

describe('what one replica asks another', () => {
  it('is closed for everybody else, whatever they show', async () => {
    for (const headers of [{}, bearer(ADMIN), { 'x-worksync-replica': 'e30.e30' }, { 'x-worksync-replica': '' }])
      for (const path of ['/replica/status', '/replica/list', '/replica/leases'])
        expect((await fetch(one.adminAddress + path, { headers })).status).toBe(401);
  });
});

describe('when replicas come and go', () => {
  it('the verdict names another configuration and another version, and the metrics count replicas', async () => {
    const third = await world.join({ version: 'next', workspaces: [...WORKSPACES, 'third'] });
    const codes = async () => (await one.daemon.status()).shared?.causes.map(({ code }) => code);
    await expect.poll(codes).toEqual(['replica_configs_differ', 'replica_versions_differ']);
    expect((await one.daemon.status()).verdict).toBe('degraded');
    const metrics = await (await fetch(`${one.adminAddress}/metrics`, { headers: bearer(READ) })).text();
    expect(metrics).toContain('worksync_replicas 3');
    expect(metrics).toMatch(/worksync_lease_renewal_age_seconds [0-3]/);
    expect(metrics).not.toContain('workspace="third"');
    await third.stop();
    await expect.poll(codes).toEqual([]);
    await settled();
  });

  it('the one that is left takes over, and answers for all', async () => {
    const left = theirs();
    await other.stop();
    await expect.poll(() => one.open().toSorted()).toEqual(WORKSPACES);
    const page = await fetch(`${one.adminAddress}/workspaces/${left}`, { headers: bearer(READ) });
    expect(page.status).toBe(200);
    const metrics = await (await fetch(`${one.adminAddress}/metrics`, { headers: bearer(READ) })).text();
    expect(metrics).toContain('worksync_leases 2');
    // The other one gave its workspace back.
    expect(metrics).not.toMatch(/worksync_lease_takeovers_total [1-9]/);
  });
});
