import { afterEach, expect, it } from 'vitest';
import { createListener, describeHeard, type Heard } from '../../src/cli/listen.ts';
import { askOwner } from '../../src/cli/owner.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

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

it('tells refused requests once for each time', async () => {
  world = await createWorld();
  const [all, some, none] = [listen(), listen({ workspaces: ['test'] }), listen({ workspaces: [] })];
  for (const each of [all, some, none]) await each.look();
  const wrong = 'another secret, as long as that';
  for (const count of [1, 2]) {
    expect(await deliver(1, wrong)).toBe(401);
    // So that one of them is the latest.
    await world.clock.advance(1);
    await world.post('nobody', { headers: {}, body: '{}' });
    await world.clock.advance(3_000);
    const heard: Heard[] = [];
    await world.until(async () => heard.push(...(await all.look())) >= 2);
    expect(heard).toMatchObject([
      { kind: 'refused', status: 401, count },
      { kind: 'refused', status: 404, count },
    ]);
    expect((await some.look()).length).toBeGreaterThan(0);
    expect(await none.look()).toEqual([]);
  }
});

it('says that more came than it shows', async () => {
  world = await createWorld();
  await deliver(1);
  await world.settled();
  const listener = listen();
  await listener.look();
  for (let number = 2; number <= 102; number++) await deliver(number);
  const heard = await listener.look();
  expect(heard).toHaveLength(101);
  expect(describeHeard(heard[0]!)).toBe('test: more came than is shown; "worksync deliveries" lists them');
});
