import { afterEach, expect, it } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';

/** Pull requests, as they are recorded and linked. */

let world: World;

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
