import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';
import type { PullSetting } from '../support/vendors/github-payloads.ts';

let world: World;

const ask: World['ask'] = (question, asked) => world.ask(question, asked);

/** The webhook is taken over afterwards; no time passes, so nothing that comes now is due yet. */
async function deliver(number: number, title: string, setting: PullSetting = {}): Promise<void> {
  await world.pull({ number, title, ...setting });
  await world.partition().reconcile.drain();
}

const recorded = async () => (await world.records()).map(({ title }) => title);
const waiting = (states?: ('pending' | 'held')[]) => ask('changes', { states, limit: 99 });

describe('a change', () => {
  let number = 0;
  let record = '';
  let item = '';
  beforeAll(async () => {
    world = await createWorld({ config: { rules: { workflow: { preset: 'standard' } } } });
  });
  beforeEach(async () => {
    await world.settled();
    await world.clock.advance(60_000);
    record = `pull_request:github/5001/${++number}`;
    item = `acme/app#${number}`;
  });
  afterEach(() => world.weather.clear());
  afterAll(() => world.close());

  it('that waits is listed with the name of its item, and shows what is to stand there', async () => {
    await deliver(number, 'Pay by card');
    expect(await waiting(['pending'])).toMatchObject([
      {
        ...{ entity: record, name: `${item} Pay by card`, kind: 'pull_request', effect: 'creation' },
        ...{ state: 'pending', attempts: 0, error: null },
      },
    ]);
    for (const target of [record, item, `https://github.com/acme/app/pull/${number}`])
      expect(await ask('changes-show', { targets: [target] })).toMatchObject([
        { entity: record, desired: { title: 'Pay by card' }, known: null },
      ]);
  });

  it('that failed is tried again at once on request, without the pause after its failures', async () => {
    let left = 3;
    world.weather.turn({ before: ({ method }) => (method === 'POST' && left-- > 0 ? { status: 500 } : undefined) });
    await deliver(number, 'Pay by card');
    await world.until(async () => (await waiting()).some(({ attempts }) => attempts === 3));
    const [failed] = await waiting();
    expect(failed).toMatchObject({ entity: record, error: expect.any(String) });
    expect(failed!.notBefore).toBeGreaterThan(world.clock.now());
    expect(await ask('changes-retry', { targets: [item] })).toEqual({ retried: [record] });
    const asked = world.clock.elapsed();
    await world.settled();
    expect(world.clock.elapsed() - asked).toBeLessThan(failed!.notBefore - world.clock.now());
    expect(await recorded()).toContain('Pay by card');
  });

  it('is dropped until its item changes again', async () => {
    await deliver(number, 'Pay in time');
    expect(await ask('changes-drop', { targets: [item] })).toEqual({ dropped: [record] });
    await world.settled();
    expect(await recorded()).not.toContain('Pay in time');
    await world.clock.advance(60_000);
    await deliver(number, 'Pay by cash');
    await world.settled();
    expect(await recorded()).toContain('Pay by cash');
  });
});

describe('the plan', () => {
  afterEach(() => world.close());

  it('tells what would be written, and when, at the present share of the quota', async () => {
    world = await createWorld({ quota: { requests: 30, burst: 5 } });
    expect(await ask('plan', { limit: 2 })).toMatchObject({ unread: ['the workspace'] });
    await world.settled();
    expect(await ask('plan', { limit: 2 })).toMatchObject({ requests: 0, unread: [] });
    for (let number = 1; number <= 20; number++) await deliver(number, `Number ${number}`);
    const times = (await waiting(['pending'])).map(({ expectedAt }) => expectedAt as number);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    let plan = await ask('plan', { limit: 2 });
    expect(await world.costOf(async () => (plan = await ask('plan', { limit: 2 })))).toBe(0);
    const first = { entity: 'pull_request:github/5001/1', label: 'record of acme/app#1', held: false };
    expect(plan).toMatchObject({
      id: expect.stringMatching(/^[0-9a-f]{12}$/),
      writes: [{ action: 'record-pull-request', count: 20, held: 0 }],
      requests: 20,
      entities: [{ ...first, action: 'record-pull-request' }, {}],
    });
    const { forecast, lanes } = await ask('quota', {});
    expect(forecast).toEqual({ requests: 20, backfill: 0, held: 0, drainedAt: plan.drainedAt });
    expect(lanes).toMatchObject({ mirror: 20, read: 0 });
    await world.settled();
    expect(await recorded()).toHaveLength(20);
    // Changes wait for their due time as well, seconds; the forecasts are about the quota.
    expect(Math.abs(world.clock.now() - times.at(-1)!)).toBeLessThan(20_000);
    expect(Math.abs(world.clock.now() - (plan.drainedAt ?? 0))).toBeLessThan(20_000);
  });
});

describe('changes that need approval', () => {
  afterEach(() => world.close());

  /** A daemon that creates so many records and no more. */
  async function open(creations: number, ...numbers: readonly number[]): Promise<void> {
    world = await createWorld({ config: { guard: { creations } } });
    for (const number of numbers) await deliver(number, `Number ${number}`, { isOfStranger: true });
    await world.settled();
  }

  it('are approved as a plan beside a running daemon, and nothing that came later', async () => {
    await open(1, 1, 2, 3);
    const { id, writes } = await ask('plan', { limit: 9 });
    expect(writes).toEqual([{ action: 'record-pull-request', count: 2, held: 2 }]);
    await deliver(4, 'Number 4', { isOfStranger: true });
    await world.settled();
    expect(await ask('apply', { id: 'another' })).toEqual({ outcome: 'unknown' });
    expect(await ask('apply', { id })).toMatchObject({ outcome: 'applied', changes: 2 });
    await world.settled();
    expect(await recorded()).toHaveLength(3);
    expect(await ask('held', { samples: 9 })).toMatchObject({
      creations: { count: 1, samples: [{ entity: 'pull_request:github/5001/4', label: 'record of acme/app#4' }] },
    });
  });

  it('are not approved where another body would be sent, and the difference is named', async () => {
    await open(0, 1, 2);
    const { id } = await ask('plan', { limit: 9 });
    await world.clock.advance(60_000);
    await deliver(2, 'Another title', { isOfStranger: true });
    await world.settled();
    const changed = ['record of acme/app#2'];
    expect(await ask('apply', { id })).toEqual({ outcome: 'changed', changed, added: [], gone: [] });
    expect(await recorded()).toEqual([]);
  });
});
