import { afterEach, describe, expect, it } from 'vitest';
import { describeStatus } from '../../src/cli/status.ts';
import { createTracker, issue, tell } from '../support/fakes/tracker.ts';
import { createWorld, GITHUB, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { drawn, isDeep, sampleOf } from '../support/harness/depth.ts';
import type { PullSetting } from '../support/vendors/github-payloads.ts';

/** Many webhooks at once are ordinary: a bot opens pull requests, or the workspace was unreachable. Nobody has to approve them. */

const MINUTE = 60_000;
const OTHER = { id: 5_002, name: 'api' };

let world: World;
afterEach(() => world.close());

async function open(): Promise<void> {
  const connections = { github: GITHUB, other: { ...GITHUB, repositories: ['acme/api'] } };
  const quota = { requests: 5_000, burst: 1_500 };
  const tracker = { connector: 'tracker', webhookSecrets: WEBHOOK_SECRET, poll: 'off' };
  world = await createWorld({
    ...{ quota, connectors: [createTracker().connector] },
    config: { connections: { ...connections, tracker }, rules: { triage: [{ create: 'bug' }] } },
  });
  await world.settled();
}

const deliver = (setting: PullSetting, connection = 'github', action = 'opened') =>
  world.pull({ created: new Date(world.clock.now()).toISOString(), ...setting }, { connection, action });

async function deliverIssue(number: number): Promise<void> {
  const updated = issue(number, { updatedAt: world.clock.now() });
  expect(await tell(world.daemon().address, updated, { secret: WEBHOOK_SECRET })).toBe(202);
}

async function deliverAll(first: number, last: number, setting: PullSetting = {}, action?: string): Promise<void> {
  const numbers = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  await Promise.all(numbers.map((number) => deliver({ number, ...setting }, 'github', action)));
}

const status = () => world.partition().status();
const held = async () => (await status()).changes.byState.held;
/** Requests that wrote something, also those that the service never saw. */
const written = () => world.weather.arrivals.filter(({ method }) => method === 'POST').length;
const recorded = async () => (await world.service().statistics()).pullRequests;

/** Returns the times from a webhook to the answered request of these entities, ascending. Milliseconds. */
async function lagsOf(prefix: string): Promise<number[]> {
  const { query } = world.partition().store;
  const requests = query.selectFrom('requests').select(['since', 'completed_at']).where('entity', 'like', `${prefix}%`);
  return (await requests.execute()).map(({ since, completed_at }) => completed_at - since).toSorted((a, b) => a - b);
}

describe('a burst of webhooks', () => {
  /** Pull requests in each of twenty steps: 2 000 in a deep run. */
  const PER_STEP = drawn(100, 3.8);

  it.runIf(isDeep)(
    'of hundreds of new pull requests is sent as a whole, and delays no other connection [A13]',
    async () => {
      await open();
      const begin = world.clock.now();
      for (let step = 0; step < 20; step++) {
        await deliverAll(step * PER_STEP + 1, (step + 1) * PER_STEP);
        await deliver({ number: step + 1, repository: OTHER }, 'other');
        await world.partition().reconcile.drain();
        await world.clock.advance(500);
      }
      expect(world.clock.now() - begin).toBe(10_000);
      await world.partition().reconcile.drain();
      expect(await held()).toBe(0);
      expect(describeStatus(await world.daemon().status())).toContain(
        `burst: ${20 * PER_STEP - 500} creations sent after all other changes: more than 500 of one connection within a minute`,
      );
      await world.until(() => written() === 20 * PER_STEP + 20, 60 * MINUTE);
      await world.settled();
      expect(await recorded()).toBe(20 * PER_STEP + 20);
      expect(await held()).toBe(0);
      const lags = await lagsOf('pull_request:github/5002/');
      expect(lags).toHaveLength(20);
      expect(lags[18]).toBeLessThanOrEqual(10_000);
    },
  );
});

describe('an outage of the workspace', () => {
  const OUTAGES = {
    'refuses all requests': () => true,
    'cuts all connections': () => true,
    'refuses two of three requests': (count: number) => count % 3 > 0,
  };
  /** Each brings ten webhooks. */
  const STEPS = drawn(30);

  it.each(sampleOf(Object.keys(OUTAGES) as (keyof typeof OUTAGES)[], 3))(
    `that %s for 5 minutes, while ${10 * STEPS} webhooks come, holds nothing`,
    async (name) => {
      await open();
      const { key, taskId } = await world.bug('The door');
      await deliverIssue(1_000);
      await world.settled();
      let requests = 0;
      const refusal = name.startsWith('cuts') ? 'cut' : { status: 503 };
      world.weather.turn({ before: () => (OUTAGES[name](requests++) ? refusal : undefined) });
      for (let step = 0; step < STEPS; step++) {
        await deliverAll(step * 8 + 1, step * 8 + 8, { title: `${key} part` });
        for (const number of [100 + step, 200 + step]) await deliverIssue(number);
        await world.partition().reconcile.drain();
        await world.clock.advance((5 * MINUTE) / STEPS);
      }
      world.weather.clear();
      await world.settled(60 * MINUTE);
      expect(await held()).toBe(0);
      const records = await world.records();
      expect(records.map(({ taskIds }) => taskIds)).toEqual(Array.from({ length: 8 * STEPS }, () => [taskId]));
      expect(await world.tasks()).toHaveLength(2 * STEPS + 2);
    },
  );
});
