import { afterEach, expect, test } from 'vitest';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const CONFIG = {
  connections: {
    github: {
      connector: 'github',
      repositories: ['acme/app'],
      webhookSecrets: WEBHOOK_SECRET,
      token: 'a-token-for-tests',
      poll: 'off',
      writeBack: { comment: true },
    },
  },
};

let world: World | undefined;
afterEach(() => world?.close());

/** How long nothing happens: many rounds of what the process does, so that one more or less says nothing. */
const RESTED = 5 * HOUR;

/** The timers and the statements of so many workspaces while nothing happens. */
async function rest(count: number) {
  const statements: string[] = [];
  const opened = await createWorld({ config: CONFIG, onStatement: (statement) => statements.push(statement) });
  world = opened;
  for (let index = 1; index < count; index++) opened.configure(`other-${index}`, CONFIG);
  await opened.reload();
  expect(opened.workspaces().partitions()).toHaveLength(count);
  await opened.until(async () => {
    const { workspaces } = await opened.daemon().status();
    return workspaces.every(
      ({ changes, deliveries }) => changes.byState.pending + changes.byState.sending + deliveries.pending === 0,
    );
  });
  await opened.clock.advance(2 * HOUR);
  statements.length = 0;
  await opened.clock.advance(RESTED);
  const cost = { timers: opened.clock.pending, statements: statements.length };
  await opened.close();
  world = undefined;
  return cost;
}

test('workspaces at rest have no timer and no statement of their own', async () => {
  const [twelve, one] = [await rest(12), await rest(1)];
  expect(twelve.timers).toBe(one.timers);
  // One of their own each hour would be 55 more. Statistics, which wait for a drawn time, are up to 21.
  expect(twelve.statements).toBeLessThan(one.statements + 40);
});
