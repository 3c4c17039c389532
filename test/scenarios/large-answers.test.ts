import { afterEach, describe, expect, test } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { ON_POSTGRES } from '../support/postgres/store-place.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

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
