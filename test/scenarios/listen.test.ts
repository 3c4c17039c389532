import { afterEach, describe, expect, it } from 'vitest';
import { createListener, describeHeard } from '../../src/cli/deliveries/deliveries.ts';
import { askOwner } from '../../src/cli/owner.ts';
import { commandLine, complaintsOf } from '../support/harness/command-line.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

describe('listen', () => {
  /** `listen`, beside a daemon. That it goes on while the daemon is away is what `status --watch` does too. */

  let world: World;
  afterEach(() => world.close());

  function listen(wanted: Parameters<typeof createListener>[0] = {}) {
    return createListener(wanted, (method, path, asked) => askOwner(world.dataFolder, method, path, asked));
  }

  async function deliver(number: number, secret?: string): Promise<number> {
    const updated = new Date(world.clock.now()).toISOString();
    return world.deliver('pull_request', pullEvent({ number, title: `Number ${number}`, updated }), { secret });
  }

  it('tells what comes from now on, and again when it is judged; own answers only when asked for', async () => {
    world = await createWorld();
    await deliver(1);
    await world.settled();
    const listener = listen();
    expect(await listener.look()).toEqual([]);
    expect(await deliver(2)).toBe(202);
    await world.settled();
    const heard = await listener.look();
    expect(heard).toMatchObject([{ kind: 'delivery', workspace: 'test', connection: 'github', state: 'applied' }]);
    expect(heard.map(describeHeard)[0]).toMatch(
      /^\S+Z {2}applied {2}test\/github webhook pull_request {2}acme\/app#2 Number 2 {2}delivery \d+ \(delivery-2\)$/,
    );
    expect(await listener.look()).toEqual([]);

    const withOwn = listen({ own: true });
    await withOwn.look();
    await deliver(3);
    await world.settled();
    expect((await withOwn.look()).length).toBeGreaterThan(1);
  });
});

describe('deliveries refused', () => {
  /** `deliveries refused`, beside a daemon and without one. */

  let world: World;
  afterEach(() => world.close());

  const refused = (...args: string[]) => commandLine('deliveries', 'refused', '--data', world.dataFolder, ...args);

  async function refuseSome(): Promise<void> {
    world = await createWorld();
    expect(await world.deliver('pull_request', {}, { secret: 'another secret, as long as that' })).toBe(401);
    expect(await world.deliver('pull_request', {}, { secret: 'another secret, as long as that' })).toBe(401);
    // So that one of them is the latest.
    await world.clock.advance(1);
    expect(await world.post('nobody', { headers: { 'user-agent': 'curl' }, body: '{}' })).toBe(404);
    // They are written every few seconds.
    await world.clock.advance(3_000);
    await world.until(async () => (await refused()).stdout.includes('/webhooks/test/nobody'));
  }

  it('tells what was refused, why, and how often', async () => {
    await refuseSome();
    const told = await refused('--workspace', 'test');
    expect([told.code, complaintsOf(told)]).toEqual([0, '']);
    expect(told.stdout).toMatch(
      /refused {2}POST \/webhooks\/test\/github from 127\.0\.0\.1: 401 signature_mismatch, 2 times since .+\n {4}\S/,
    );
    const [latest] = (await refused('--json', '--limit', '1')).json();
    expect(latest).toMatchObject({ path: '/webhooks/test/nobody', status: 404, count: 1, code: 'not_found' });
    const withHeaders = (await refused('--headers')).stdout;
    expect(withHeaders).toContain('\n    x-github-event: pull_request\n');
  });
});
