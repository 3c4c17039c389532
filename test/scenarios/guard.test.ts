import { afterEach, describe, expect, it } from 'vitest';
import { describeStatus } from '../../src/cli/status/status.ts';
import { createLogger } from '../../src/platform/observe/pino-logger.ts';
import { createScrubber } from '../../src/platform/observe/scrubber.ts';
import { createTracker, issue, tell } from '../support/fakes/tracker.ts';
import { createWorld, GITHUB, WEBHOOK_SECRET, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { drawn, isDeep, sampleOf } from '../support/harness/depth.ts';
import type { PullSetting } from '../support/vendors/github-payloads.ts';

let world: World;
afterEach(() => world.close());

const ask: World['ask'] = (question, asked) => world.ask(question, asked);

async function open(guard: object, options: Partial<WorldOptions> = {}): Promise<void> {
  world = await createWorld({ quota: { requests: 1_000, burst: 1_000 }, ...options, config: { guard } });
}

/** Pull requests 1 to `count`, all at the same moment. */
async function deliver(count: number, setting: PullSetting = {}): Promise<void> {
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  await Promise.all(numbers.map((number) => world.pull({ number, ...setting })));
  await world.settled();
}

async function states(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { state } of await world.records()) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}

describe('the mass-change guard', () => {
  it('holds what is over the limit of creations until an administrator approves it [A13]', async () => {
    await open({ creations: 5 });
    await deliver(8, { isOfStranger: true });
    expect(await states()).toEqual({ open: 5 });
    expect(await ask('held', { samples: 1 })).toEqual({
      removals: { count: 0, samples: [] },
      creations: {
        count: 3,
        samples: [
          {
            entity: expect.stringMatching(/^pull_request:github\/5001\/\d$/),
            label: expect.stringMatching(/^record of acme\/app#\d$/),
            since: expect.any(Number),
            error: 'guard_held: more than 5 creations wait together (guard.creations)',
          },
        ],
      },
      repairs: { count: 0, samples: [] },
      statuses: { count: 0, samples: [] },
      refused: { count: 0, samples: [] },
    });
    const { changes } = await world.partition().status();
    expect(changes.byState.held).toBe(3);
    expect(changes.stuck[0]?.failure).toMatchObject({ code: 'guard_held', hint: expect.stringContaining('release') });

    expect(await ask('release', { classes: ['creations'] })).toEqual({ released: 3 });
    await world.settled();
    expect(await states()).toEqual({ open: 8 });
  });

  it('names changes in the status and in the log as people do', async () => {
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const logger = createLogger({ level: 'info', scrubber: createScrubber(), destination });
    await open({ creations: 1 }, { logger });
    await deliver(2, { isOfStranger: true });
    const { changes } = await world.partition().status();
    expect(changes.stuck.map(({ label }) => label)).toEqual(['record of acme/app#2']);
    const recorded = lines.filter(
      (line) => line.includes('"request answered"') && line.includes('record-pull-request'),
    );
    expect(recorded.map((line) => (JSON.parse(line) as { item: string }).item)).toEqual(['acme/app#1']);
    expect(await ask('release', { entities: ['acme/app#2'] })).toEqual({ released: 1 });
  });

  it('holds closings, over a restart too; one that is open again is dropped, one that is named goes', async () => {
    await open({ removals: 2 });
    await deliver(6);
    await world.clock.advance(60_000);
    await deliver(6, { state: 'closed' });
    expect(await states()).toEqual({ open: 4, closed: 2 });
    await world.restart();
    await world.clock.advance(60_000);
    await world.settled();
    expect(await states()).toEqual({ open: 4, closed: 2 });

    const held = await ask('held', { samples: 9 });
    const [first = '', second = ''] = held.removals.samples.map(({ entity }) => entity);
    await world.pull({ number: Number(first.at(-1)) }, { action: 'reopened' });
    await world.settled();
    expect(await ask('held', { samples: 0 })).toMatchObject({ removals: { count: 3 } });
    const misspelt = ask('release', { entities: [second, 'pull_request:none', 'x'] });
    await expect(misspelt).rejects.toMatchObject({
      code: 'not_found',
      message: 'no change of pull_request:none is held, and 1 more of those named',
    });
    expect(await ask('held', { samples: 0 })).toMatchObject({ removals: { count: 3 } });
    expect(await ask('release', { entities: [second] })).toEqual({ released: 1 });
    await world.settled();
    expect(await states()).toEqual({ open: 3, closed: 3 });
  });

  it('holds removals of links, though each must first be read', async () => {
    await open({ removals: 2 });
    const { taskId, key } = await world.bug('The door');
    await world.pull({ number: 99, title: key as string });
    await world.settled();
    await deliver(5, { title: `${key} part` });
    const links = async () => (await world.links(taskId)).length;
    expect(await links()).toBe(6);
    await world.clock.advance(60_000);
    await deliver(5, { title: 'part' });
    expect(await links()).toBe(4);
    expect(await ask('held', { samples: 0 })).toMatchObject({ removals: { count: 3 } });
    expect(await ask('release', { classes: ['removals'] })).toEqual({ released: 3 });
    await world.settled();
    expect(await links()).toBe(1);
  });

  it('shows one number of held changes, however many batches they came in', async () => {
    await open({ creations: 2 });
    for (const number of [1, 2, 3, 4, 5]) {
      await world.pull({ number, isOfStranger: true });
      await world.partition().reconcile.drain();
    }
    const whole = await world.daemon().status();
    const status = describeStatus(whole);
    expect(status.split('\n').filter((line) => line.includes('held'))).toEqual([
      expect.stringContaining('changes_held: 3 changes need approval'),
      expect.stringMatching(/^ {2}changes .* 3 held$/),
      expect.stringMatching(/^ {4}held: more than 2 creations wait together \(guard.creations\): .*, .*, /),
    ]);
    const others = whole.workspaces.map((workspace) => ({ ...workspace, name: 'other' }));
    const several = describeStatus({ ...whole, workspaces: [...whole.workspaces, ...others] });
    expect(several).toMatch(/"worksync held --workspace test".*"worksync held --workspace other"/s);
  });

  it.runIf(isDeep)('is off where the configuration says so', async () => {
    await open({ creations: 'off', removals: 'off' });
    await deliver(205);
    expect((await world.service().statistics()).pullRequests).toBe(205);
  });
});

describe('many webhooks at once', () => {
  /** Many webhooks at once are ordinary: a bot opens pull requests, or the workspace was unreachable. Nobody has to approve them. */

  const MINUTE = 60_000;
  const OTHER = { id: 5_002, name: 'api' };

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
    const requests = query
      .selectFrom('requests')
      .select(['since', 'completed_at'])
      .where('entity', 'like', `${prefix}%`);
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
});
