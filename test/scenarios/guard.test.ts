import { afterEach, describe, expect, it } from 'vitest';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { drawn, sampleOf } from '../support/harness/depth.ts';
import type { PullSetting } from '../support/vendors/github-payloads.ts';

let world: World;
afterEach(() => world.close());

const ask: World['ask'] = (question, asked) => world.ask(question, asked);

async function open(guard: object, options: Partial<WorldOptions> = {}): Promise<void> {
  world = await createWorld({ quota: { requests: 1_000, burst: 1_000 }, ...options, config: { guard } });
}

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
    expect(await ask('held', { samples: 1 })).toMatchObject({
      removals: { count: 0, samples: [] },
      creations: {
        count: 3,
        samples: [
          {
            entity: expect.stringMatching(/^pull_request:github\/5001\/\d$/),
            label: expect.stringMatching(/^record of acme\/app#\d$/),
            error: 'guard_held: more than 5 creations wait together (guard.creations)',
          },
        ],
      },
    });
    const { changes } = await world.partition().status();
    expect(changes.byState.held).toBe(3);
    expect(changes.stuck[0]?.failure).toMatchObject({ code: 'guard_held', hint: expect.stringContaining('release') });

    expect(await ask('release', { classes: ['creations'] })).toEqual({ released: 3 });
    await world.settled();
    expect(await states()).toEqual({ open: 8 });
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
});

describe('an outage of the workspace', () => {
  const OUTAGES = {
    'refuses all requests': () => true,
    'cuts all connections': () => true,
    'refuses two of three requests': (count: number) => count % 3 > 0,
  };
  const STEPS = drawn(30);

  /** Many webhooks at once are ordinary: nobody has to approve what waited for the workspace. */
  it.each(sampleOf(Object.keys(OUTAGES) as (keyof typeof OUTAGES)[], 3))(
    'that %s for 5 minutes, while webhooks come, holds nothing',
    async (name) => {
      world = await createWorld({ quota: { requests: 5_000, burst: 1_500 } });
      const { key, taskId } = await world.bug('The door');
      await world.settled();
      let requests = 0;
      const refusal = name.startsWith('cuts') ? 'cut' : { status: 503 };
      world.weather.turn({ before: () => (OUTAGES[name](requests++) ? refusal : undefined) });
      for (let step = 0; step < STEPS; step++) {
        const created = new Date(world.clock.now()).toISOString();
        const numbers = Array.from({ length: 8 }, (_, index) => step * 8 + index + 1);
        await Promise.all(numbers.map((number) => world.pull({ number, title: `${key} part`, created })));
        await world.partition().reconcile.drain();
        await world.clock.advance(300_000 / STEPS);
      }
      world.weather.clear();
      await world.settled();
      expect((await world.partition().status()).changes.byState.held).toBe(0);
      const records = await world.records();
      expect(records.map(({ taskIds }) => taskIds)).toEqual(Array.from({ length: 8 * STEPS }, () => [taskId]));
    },
  );
});
