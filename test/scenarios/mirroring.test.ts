import { afterEach, describe, expect, it } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';

/** Pull requests, as they are recorded and linked. */

let world: World;

describe('mirroring and linking', () => {
  afterEach(() => world.close());

  it('records a pull request once and links it to the task that its branch names', async () => {
    world = await createWorld();
    const { taskId } = await world.bug();
    const pull = { head: 'bug-1-fix', title: 'Fix it', updated: '2026-01-05T09:00:00Z' };
    await world.pull(pull);
    await world.settled();
    expect(await world.records()).toMatchObject([
      { provider: 'github', repoId: '5001', identifier: '1', title: 'Fix it', state: 'open', taskIds: [taskId] },
    ]);
    expect(await world.links(taskId)).toMatchObject([
      { url: 'https://github.com/acme/app/pull/1', externalId: 'worksync:github:github.com:5001:pull:1' },
    ]);
    // Two complete reads at the first start, one record, one link.
    expect((await world.requests()).received).toBe(4);
    const again = async () => {
      await world.restart();
      await world.pull(pull, { id: 'another' });
      await world.settled();
    };
    expect(await world.costOf(again)).toBe(0);
  });

  it('goes on, and ends in order, though a listener fails when a write was sent', async () => {
    world = await createWorld();
    world.partition().onWrite(() => {
      throw new Error('a fault of ours');
    });
    for (const number of [1, 2]) await world.pull({ number });
    await world.until(async () => (await world.records()).length === 2);
    await world.restart();
    await world.settled();
    expect(await world.records()).toHaveLength(2);
  });
});
