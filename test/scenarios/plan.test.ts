import { afterEach, describe, expect, it } from 'vitest';
import { describePlan } from '../../src/cli/plan.ts';
import { createWorld, GITHUB, type World } from '../support/harness/daemon.ts';
import { type PullSetting, pullEvent } from '../support/vendors/github-payloads.ts';

let world: World;
afterEach(() => world.close());

const ask: World['ask'] = (question, asked) => world.ask(question, asked);

const CONNECTIONS = {
  github: GITHUB,
};
const MINUTE = 60_000;

async function deliver(number: number, setting: PullSetting = {}): Promise<void> {
  const updated = new Date(world.clock.now()).toISOString();
  await world.deliver('pull_request', pullEvent({ number, updated, ...setting }));
}

/** Until all deliveries are taken over; no time passes, so nothing that comes now is due yet. */
async function takenOver(): Promise<void> {
  await world.partition().reconcile.drain();
}

async function recorded(): Promise<number> {
  return (await world.service().statistics()).pullRequests;
}

describe('plan', () => {
  it('tells what would be written, and how long that takes at the present share', async () => {
    world = await createWorld({ quota: { requests: 30, burst: 5 }, config: { connections: CONNECTIONS, guard: {} } });
    expect(await ask('plan', { limit: 2 })).toMatchObject({ unread: ['the workspace'] });
    await world.settled();
    expect(await ask('plan', { limit: 2 })).toMatchObject({ requests: 0, unread: [] });
    for (const number of [1, 2, 3, 4, 5, 6, 7, 8]) await deliver(number);
    await takenOver();
    const before = await world.requests();
    const plan = await ask('plan', { limit: 2 });
    expect(await world.requests()).toEqual(before);
    expect(plan).toMatchObject({
      id: expect.stringMatching(/^[0-9a-f]{12}$/),
      writes: [{ action: 'record-pull-request', count: 8, held: 0 }],
      requests: 8,
      entities: [
        {
          entity: 'pull_request:github/5001/1',
          label: 'record of acme/app#1',
          action: 'record-pull-request',
          held: false,
        },
        {},
      ],
    });
    const { forecast, lanes } = await ask('quota', {});
    expect(forecast).toEqual({ requests: 8, backfill: 0, held: 0, drainedAt: plan.drainedAt });
    expect(lanes).toMatchObject({ mirror: 8, read: 0 });
    await world.settled();
    expect(await recorded()).toBe(8);
    // Changes wait for their due time as well, seconds; the forecast is about the quota.
    expect(Math.abs(world.clock.now() - (plan.drainedAt ?? 0))).toBeLessThan(10_000);
  });

  it('names the status that a task would get', async () => {
    const rules = { workflow: { preset: 'standard' } };
    world = await createWorld({ config: { connections: CONNECTIONS, rules } });
    const bug = await world.bug();
    await world.settled();
    await deliver(1, { title: `Fixes ${bug.key}` });
    await takenOver();
    const plan = await ask('plan', { limit: 9 });
    expect(plan.entities).toContainEqual(expect.objectContaining({ sets: 'status open → review (standard: open)' }));
    expect(describePlan(plan, world.clock.now())).toContain(`${bug.key}  (status open → review (standard: open))`);
  });

  it('applied beside a running daemon, lets go what is held in it and nothing that came later', async () => {
    const guard = { creations: 1 };
    world = await createWorld({ config: { connections: CONNECTIONS, guard } });
    for (const number of [1, 2, 3]) await deliver(number, { isOfStranger: true });
    await world.settled();
    expect(await recorded()).toBe(1);
    const { id, writes } = await ask('plan', { limit: 9 });
    expect(writes).toEqual([{ action: 'record-pull-request', count: 2, held: 2 }]);
    await deliver(4, { isOfStranger: true });
    await world.settled();
    expect(await ask('apply', { id: 'another' })).toEqual({ outcome: 'unknown' });
    expect(await ask('apply', { id })).toMatchObject({ outcome: 'applied', changes: 2 });
    await world.settled();
    expect(await recorded()).toBe(3);
    expect(await ask('held', { samples: 9 })).toMatchObject({
      creations: { count: 1, samples: [{ entity: 'pull_request:github/5001/4', label: 'record of acme/app#4' }] },
    });
  });

  it('is refused with the difference where another body would be sent', async () => {
    world = await createWorld({ config: { connections: CONNECTIONS, guard: { creations: 0 } } });
    await deliver(1, { isOfStranger: true });
    await deliver(2, { isOfStranger: true });
    await world.settled();
    const { id } = await ask('plan', { limit: 9 });
    await world.clock.advance(MINUTE);
    await deliver(2, { title: 'Another title', isOfStranger: true });
    await world.settled();
    expect(await ask('apply', { id })).toEqual({
      outcome: 'changed',
      changed: ['record of acme/app#2'],
      added: [],
      gone: [],
    });
    expect(await recorded()).toBe(0);
  });
});
