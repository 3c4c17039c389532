import { rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

const SECOND = 1_000;
const MINUTE = 60_000;

const connection = (secret = WEBHOOK_SECRET, repositories = ['acme/app']) => ({
  connections: { github: { connector: 'github', repositories, webhookSecrets: secret, poll: 'off' } },
});

let world: World;
beforeEach(async () => {
  world = await createWorld({ config: connection() });
  await world.settled();
});
afterEach(() => world.close());

const deliver = (number: number, secret = WEBHOOK_SECRET) =>
  world.deliver('pull_request', pullEvent({ number }), { secret });
const names = () =>
  world
    .workspaces()
    .partitions()
    .map(({ name }) => name);
const tell = async () => {
  const { verdict, workspaces, broken, configFault } = await world.daemon().status();
  return {
    verdict,
    causes: workspaces.flatMap(({ causes }) => causes.map(({ code }) => code)),
    broken: broken.map(({ name, code }) => `${name} ${code}`),
    fault: configFault?.code,
  };
};
const postTo = async (workspace: string) =>
  (await fetch(`${world.daemon().address}/webhooks/${workspace}/github`, { method: 'POST', body: '{}' })).status;

describe('SIGHUP', () => {
  it('changes a connection without a restart: another secret counts from then on', async () => {
    world.configure('test', connection('another webhook secret for tests'));
    await world.reload();
    expect(await deliver(1)).toBe(401);
    expect(await deliver(1, 'another webhook secret for tests')).toBe(202);
    await world.settled();
    expect(await tell()).toMatchObject({ verdict: 'ok' });
  });

  it('leaves what did not change as it is', async () => {
    const before = world.partition();
    await world.reload();
    expect(world.partition()).toBe(before);
  });

  it('opens a workspace whose file is new, and closes one whose file is gone', async () => {
    world.configure('other', connection());
    expect(await postTo('other')).toBe(404);
    await world.reload();
    expect(names()).toEqual(['test', 'other']);
    expect(await postTo('other')).toBe(401);
    world.configure('other', undefined);
    await world.reload();
    expect(names()).toEqual(['test']);
    // Its rows are there, and so may its file be again: senders are to come again.
    expect(await postTo('other')).toBe(503);
    expect(await tell()).toMatchObject({ verdict: 'blocked', broken: ['other workspace_removed'] });
    world.configure('other', connection());
    await world.reload();
    expect(await postTo('other')).toBe(401);
    expect(await tell()).toMatchObject({ verdict: 'ok', broken: [] });
  });

  it('keeps the last good state where a file is wrong, and says so', async () => {
    world.configure('test', { ...connection(), conections: {} });
    await world.reload();
    expect(await deliver(1)).toBe(202);
    await world.settled();
    expect(await tell()).toMatchObject({ fault: 'config_invalid', verdict: 'degraded' });
    world.configure('other', connection());
    await world.reload();
    expect(names()).toEqual(['test', 'other']);
    expect(await tell()).toMatchObject({ verdict: 'degraded', causes: ['config_rejected'], fault: undefined });
    expect(await world.metrics()).toContain('worksync_problems{workspace="test",code="config_rejected"} 1');
    world.configure('test', connection());
    await world.reload();
    expect(await tell()).toMatchObject({ verdict: 'ok', causes: [] });
  });

  it('takes an empty or unreadable folder for a fault, and not for a removal', async () => {
    const folder = world.configFolder;
    world.configure('test', undefined);
    await world.reload();
    expect([names(), await tell()]).toMatchObject([['test'], { fault: 'config_unreadable' }]);
    rmSync(folder, { recursive: true });
    await world.reload();
    expect([names(), await tell()]).toMatchObject([['test'], { fault: 'config_unreadable', verdict: 'degraded' }]);
    expect(await world.metrics()).toContain('worksync_config_fault 1');
    expect(await deliver(1)).toBe(202);
  });

  it('loses no delivery that comes while a workspace changes', async () => {
    const answers: Promise<number>[] = [];
    for (let round = 0; round < 5; round++) {
      world.configure('test', connection(WEBHOOK_SECRET, ['acme/app', `acme/more-${round}`]));
      const reloading = world.reload();
      for (let index = 0; index < 10; index++) answers.push(deliver(1 + round * 10 + index));
      await reloading;
    }
    expect(new Set(await Promise.all(answers))).toEqual(new Set([202]));
    await world.settled();
    const { pullRequests } = (await world.daemon().status()).workspaces[0] ?? {};
    expect(pullRequests).toEqual({ total: 50, waiting: 0 });
  });
});

describe('a file that changes', () => {
  it('is taken when nothing changed for two seconds', async () => {
    // Nobody tells of the change here: it is found by looking once a minute.
    for (let second = 0; second < 90; second++) {
      world.configure('other', connection(WEBHOOK_SECRET, [`acme/app-${second}`]));
      await world.clock.advance(SECOND);
    }
    expect(names()).toEqual(['test']);
    await world.until(() => names().length === 2, 2 * SECOND + MINUTE);
  });

  it('closes its workspace a minute after it is gone, unless it comes back', async () => {
    world.configure('other', connection());
    await world.reload();
    const other = world.workspaces().find('other');
    world.configure('other', undefined);
    await world.clock.advance(MINUTE + 30 * SECOND);
    expect(names()).toEqual(['test', 'other']);
    world.configure('other', connection());
    await world.clock.advance(5 * MINUTE);
    expect(world.workspaces().find('other')).toBe(other);
    world.configure('other', undefined);
    await world.until(() => names().length === 1, 5 * MINUTE);
    expect(await postTo('other')).toBe(503);
  });
});
