import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { OnceResult } from '../../src/admin/installation/once.ts';
import type { Status } from '../../src/admin/status/status.ts';
import { askOwner } from '../../src/cli/owner.ts';
import { differingBuilds } from '../../src/cli/report-error.ts';
import { describeStatus } from '../../src/cli/status/status.ts';
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

  it('learns the version of that one, in case it cannot show the answer', async () => {
    await askOwner(one.dataFolder, 'POST', `/admin/workspaces/${theirs()}/questions/sweep`, {});
    expect(differingBuilds()).toMatch(/^the daemon is test, this command /);
  });

  it('gets the error of that one as its own', async () => {
    const asked = askOwner(one.dataFolder, 'POST', `/admin/workspaces/${theirs()}/questions/delivery`, {
      delivery: '77',
    });
    await expect(asked).rejects.toMatchObject({ code: 'not_found', message: expect.stringContaining('77') });
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

  it('checks, and polls, the workspaces of all', async () => {
    const findings = await askOwner<Finding[]>(one.dataFolder, 'POST', '/admin/check', {});
    const subjects = findings.map(({ subject }) => subject);
    for (const name of WORKSPACES) expect(subjects).toContain(`${name}: github`);
    // The process and its database are checked once.
    expect(subjects.filter((subject) => subject === 'version')).toHaveLength(1);
    // The server of tests writes nothing to disk, and is told so.
    const wrong = findings.filter(({ level, subject }) => level === 'error' && subject !== 'postgres');
    expect(wrong).toEqual([]);
    const results = await askOwner<OnceResult[]>(one.dataFolder, 'POST', '/admin/once?patience=1000', {});
    expect(results.map(({ workspace }) => workspace).toSorted()).toEqual(WORKSPACES);
    expect(results.flatMap(({ failures }) => failures)).toEqual([]);
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

  it('hears of changes there', async () => {
    const headers = { ...bearer(READ), accept: 'text/event-stream' };
    const leaving = new AbortController();
    const address = `${one.adminAddress}/live/workspaces/${theirs()}`;
    const stream = await fetch(address, { headers, signal: leaving.signal });
    expect(stream.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    let heard = '';
    for await (const piece of stream.body ?? []) {
      heard += Buffer.from(piece).toString();
      if (heard.split('event: at').length > 2) break;
    }
    leaving.abort();
    expect(heard).toContain('event: part');
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

  it('who may read only changes nothing anywhere', async () => {
    const address = `${one.adminAddress}/admin/workspaces/${theirs()}/questions/sweep`;
    const answer = await fetch(address, { method: 'POST', headers: { ...bearer(READ), ...json }, body: '{}' });
    expect(answer.status).toBe(403);
  });

  it('sees all workspaces in the list, worst first', async () => {
    const page = await (await fetch(one.adminAddress, { headers: bearer(READ) })).text();
    for (const name of WORKSPACES) expect(page).toContain(`href="/workspaces/${name}"`);
    expect(page).toContain('2 ok');
  });
});

describe('the page of the replicas', () => {
  it('shows both and what they hold, to callers of all workspaces only', async () => {
    const look = (token: string) => fetch(`${one.adminAddress}/replicas`, { headers: bearer(token) });
    const text = await (await look(READ)).text();
    for (const name of WORKSPACES) expect(text).toContain(`href="/workspaces/${name}"`);
    for (const { address } of [one, other]) expect(text).toContain(address);
    expect((await look(LIMITED)).status).toBe(403);
    const live = await fetch(`${one.adminAddress}/live/replicas`, { headers: bearer(READ) });
    expect(await live.text()).toContain('"id":"leases"');
  });

  it('and the status of the command say the same', async () => {
    const text = describeStatus(await askOwner<Status>(one.dataFolder, 'GET', '/status.json'));
    expect(text).toMatch(/replicas\n( {2}.*1 workspace.*\n?){2}/);
    expect(text).toContain('this one');
    expect(text).not.toContain('DOES NOT ANSWER');
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

  it('reaches it by a key of its own, and names the workspace', async () => {
    expect((await tasks(one, world.apiKey, theirs())).status).toBe(200);
    // Which one is meant does not depend on which of them is open here.
    expect((await tasks(one, `${world.apiKey}x`)).status).toBe(400);
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

  it('a signature that is wrong is no way past any door, also with a good token', async () => {
    const headers = { ...bearer(ADMIN), 'x-worksync-replica': 'e30.e30' };
    for (const path of ['/status.json', `/workspaces/${theirs()}`])
      expect((await fetch(one.adminAddress + path, { headers })).status).toBe(401);
    expect((await fetch(`${one.address}/api/v1/workspaces/first/tasks`, { headers })).status).toBe(401);
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

  it('status and page name one that does not answer, and who works on what it holds', async () => {
    const leave = await world.joinMute('mute-machine');
    // Its share is one of the two: whoever had it gives it up.
    const held = () => WORKSPACES.find((name) => !one.open().includes(name) && !other.open().includes(name));
    const seen = async () => {
      const { shared, elsewhere } = await askOwner<Status>(one.dataFolder, 'GET', '/status.json');
      const mute = shared?.replicas.find(({ host }) => host === 'mute-machine');
      const cause = shared?.causes.find(({ code }) => code === 'replica_silent');
      return { mute, cause, elsewhere };
    };
    try {
      await expect.poll(seen).toMatchObject({
        mute: { holds: null },
        cause: {
          verdict: 'degraded',
          message: '1 replica did not answer (mute-machine: no answer to /replica/status within 2 s)',
        },
      });
      await expect.poll(async () => one.open().length + other.open().length).toBeLessThan(WORKSPACES.length + 1);
      const page = await (await fetch(`${one.adminAddress}/replicas`, { headers: bearer(READ) })).text();
      expect(page).toMatch(/mute-machine[\s\S]*did not answer|did not answer[\s\S]*mute-machine/);
      const { mute, elsewhere } = await seen();
      const name = held();
      expect(elsewhere).toEqual(name === undefined ? [] : [{ name, address: mute?.address }]);
    } finally {
      await leave();
    }
    const codes = async () => (await one.daemon.status()).shared?.causes.map(({ code }) => code);
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
