import { afterEach, expect, it } from 'vitest';
import { runAdminOperation } from '../../src/admin/admin-operations.ts';
import { systemRandom } from '../../src/platform/lib/random.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

let world: World;
afterEach(() => world.close());

const IDS = 12;

/** Every id that the service makes ends in an underscore, as one in 64 does. */
async function open(): Promise<void> {
  const random = systemRandom();
  const bytes = (length: number) => {
    const made = random.bytes(length);
    if (length === IDS) made[length - 1] = 0xff;
    return made;
  };
  world = await createWorld({ random: { ...random, bytes } });
}

async function addressOfTask(): Promise<{ taskId: string; url: string }> {
  const { taskId } = (await world.people.createBug({ body: { title: 'It breaks' } }, {})).body;
  expect(taskId).toMatch(/_$/);
  const { address } = await world.partition().status();
  return { taskId, url: `${address}/workspaces/current/tasks/${taskId}` };
}

const linksOf = async (taskId: string) => (await world.people.listWorkItems({ taskId }, {})).body.workItems;

it.each(['See %s', '_See %s_, please.', '(%s)', '%s…'])(
  'a task whose id ends in an underscore is linked by its address in "%s", and no other is looked for',
  async (text) => {
    await open();
    const { taskId, url } = await addressOfTask();
    await world.deliver('pull_request', pullEvent({ title: 'Door', updated: '2026-01-05T08:00:01Z' }));
    await world.settled();
    await world.clock.advance(60_000);
    const lists = async () =>
      (await world.partition().store.query.selectFrom('inbox').selectAll().where('event', '=', 'read-tasks').execute())
        .length;
    await world.deliver('pull_request', pullEvent({ body: text.replace('%s', url), updated: '2026-01-05T08:00:02Z' }));
    await world.settled();
    await world.clock.advance(600_000);
    await world.settled();
    expect(await linksOf(taskId)).toMatchObject([{ url: 'https://github.com/acme/app/pull/1' }]);
    const explained = await runAdminOperation(
      'explain',
      world.partition(),
      { target: 'https://github.com/acme/app/pull/1' },
      world.clock,
    );
    expect(explained).toMatchObject({ items: [{ links: [{ taskId, state: 'linked' }], others: [] }] });
    const before = await lists();
    await world.deliver('pull_request', pullEvent({ body: `${url} once more`, updated: '2026-01-05T08:00:03Z' }));
    await world.settled();
    await world.clock.advance(600_000);
    expect(await lists()).toBe(before);
  },
);
