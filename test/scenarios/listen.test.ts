import { afterEach, describe, expect, it } from 'vitest';
import { createListener, describeEvent } from '../../src/cli/deliveries/deliveries.ts';
import { askOwner } from '../../src/cli/owner.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

describe('listen', () => {
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
    expect(await listener.poll()).toEqual([]);
    expect(await deliver(2)).toBe(202);
    await world.settled();
    const events = await listener.poll();
    expect(events).toMatchObject([{ kind: 'delivery', workspace: 'test', connection: 'github', state: 'applied' }]);
    expect(events.map(describeEvent)[0]).toMatch(
      /^\S+Z {2}applied {2}test\/github webhook pull_request {2}acme\/app#2 Number 2 {2}delivery \d+ \(delivery-2\)$/,
    );
    expect(await listener.poll()).toEqual([]);

    const withOwn = listen({ own: true });
    await withOwn.poll();
    await deliver(3);
    await world.settled();
    expect((await withOwn.poll()).length).toBeGreaterThan(1);
  });
});
