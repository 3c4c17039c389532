import { afterEach, describe, expect, it, test } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { ON_POSTGRES } from '../support/postgres/store-place.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

describe('answers of the workspace of more than a mebibyte', () => {
  /** Answers of the workspace of more than a mebibyte are read by the converter. */

  const TEXT = 'x'.repeat(200_000);

  let world: World;
  /** The routes whose answers the converter was given. */
  let read: string[];
  afterEach(() => world.close());

  async function open(): Promise<void> {
    read = [];
    world = await createWorld({
      converter: (inline) => ({
        ...inline,
        answer(route, bytes) {
          read.push(route);
          return inline.answer(route, bytes);
        },
      }),
    });
    await world.settled();
    for (let number = 1; number <= 6; number++)
      await world.people.createBug({ body: { title: `Bug ${number}`, description: TEXT } }, {});
  }

  /** Bytes of the last list of tasks that stands in the inbox. */
  async function lengthOfList(): Promise<number> {
    const { query } = world.partition().store;
    const lists = query.selectFrom('inbox').select(['body', 'unpacked_length']).where('event', '=', 'read-tasks');
    const last = await lists.orderBy('id', 'desc').limit(1).executeTakeFirstOrThrow();
    return last.unpacked_length ?? last.body?.length ?? 0;
  }

  it('the list of all tasks, and the tasks in it are known', async () => {
    await open();
    await world.restart();
    await world.pull({ head: 'bug-6-fix' });
    await world.settled();
    expect(read).toEqual(['listTasks']);
    expect((await world.records()).map(({ taskIds }) => taskIds?.length)).toEqual([1]);
    expect(await lengthOfList()).toBeLessThan(5_000);
  });
});

describe('the threads of the daemon', () => {
  const DAY = 86_400_000;

  let world: World | undefined;
  afterEach(() => world?.close());

  test.skipIf(ON_POSTGRES)(
    'the threads of the daemon are passed in: others read its large bodies and check its database',
    async () => {
      const read: string[] = [];
      const checked: string[] = [];
      world = await createWorld({
        converter: (inline) => ({
          ...inline,
          async translate(task) {
            const translated = await inline.translate(task);
            read.push(task.event);
            return translated;
          },
        }),
        async checkFile(file) {
          checked.push(file);
          return [];
        },
      });
      const large = pullEvent({ number: 1 });
      await world.deliver('pull_request', { ...large, padding: 'x'.repeat(2_000_000) });
      await world.settled();
      expect(read).toEqual(['pull_request']);
      await world.until(() => checked.length > 0, 8 * DAY);
      expect(checked).toEqual([expect.stringMatching(/worksync\.db\.check$/)]);
    },
  );
});
