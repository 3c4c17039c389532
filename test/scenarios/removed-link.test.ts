import { afterEach, expect, it } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

/** A link that worksync removes, while an answer is on its way that still tells of it. */

let world: World;
afterEach(() => world.close());

let second = 0;
async function deliver(title: string): Promise<void> {
  const updated = new Date(Date.UTC(2026, 0, 5, 8, 0, ++second)).toISOString();
  expect(await world.deliver('pull_request', pullEvent({ title, updated }))).toBe(202);
}

/** Links that are known or wanted. A removed one stays known as removed for a day. */
const liveLinks = async () =>
  world
    .partition()
    .store.query.selectFrom('entities')
    .select('entity')
    .where('kind', '=', 'link')
    .where(({ or, eb }) => or([eb('hand', 'is', null), eb('hand', '!=', 'gone')]))
    .execute();

it('is added again when the task is named again', async () => {
  let isHolding = false;
  const [written, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  world = await createWorld({
    faults: {
      async before({ method }) {
        if (isHolding && method === 'DELETE') await written.promise;
        return undefined;
      },
      async after({ method, url }) {
        if (!isHolding || method !== 'POST' || !url.endsWith('/pull-request-records')) return undefined;
        written.resolve();
        await release.promise;
        return undefined;
      },
    },
  });
  const { taskId } = (await world.people.createBug({ body: { title: 'It breaks' } }, {})).body;
  const links = async () => (await world.people.listWorkItems({ taskId }, {})).body.workItems;
  await deliver('BUG-1: mended');
  await world.settled();
  expect(await links()).toHaveLength(1);

  // The record's answer leaves while the link is there, and comes after it was removed.
  isHolding = true;
  await deliver('Mended');
  await expect.poll(() => world.clock.advance(1_000).then(links)).toHaveLength(0);
  await expect.poll(() => world.clock.advance(1_000).then(() => liveLinks())).toHaveLength(0);
  isHolding = false;
  release.resolve();
  await world.settled();

  await deliver('BUG-1: mended after all');
  await world.settled();
  expect(await links()).toHaveLength(1);
});
