import { afterEach, describe, expect, it } from 'vitest';
import { createWeather, type Weather } from '../support/fakes/weather.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { isDeep, sampleOf } from '../support/harness/depth.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Caps at the service equal to the daemon's, with nothing left for others: any miscount would be refused. */
const QUOTA = { requests: 30, window: 15 * MINUTE, burst: 8, burstWindow: MINUTE };
const PULLS = 60;

let world: World;
let weather: Weather;
afterEach(() => world.close());

async function open(): Promise<void> {
  let clock: World['clock'] | undefined;
  weather = createWeather(() => clock?.elapsed() ?? 0);
  world = await createWorld({ quota: QUOTA, faults: weather });
  clock = world.clock;
}

/** Sixty pull requests open at the same moment. */
async function openAll(): Promise<void> {
  const updated = new Date(world.clock.now()).toISOString();
  const numbers = Array.from({ length: PULLS }, (_, index) => index + 1);
  const answers = await Promise.all(
    numbers.map((number) => world.deliver('pull_request', pullEvent({ number, updated }))),
  );
  expect(new Set(answers)).toEqual(new Set([202]));
}

async function travel(ms: number): Promise<void> {
  const end = world.clock.elapsed() + ms;
  await world.until(() => world.clock.elapsed() >= end, ms + DAY);
}

/** Most requests in any window of this length, over the arrivals at the service. */
function mostWithin(length: number): number {
  const times = weather.arrivals.map(({ at }) => at);
  const counts = times.map((start) => times.filter((at) => at >= start && at < start + length).length);
  return Math.max(...counts);
}

async function outcome() {
  return {
    recorded: (await world.service().statistics()).pullRequests,
    refused: (await world.requests()).refused,
    requests: weather.arrivals.length,
    isWithinBothWindows: mostWithin(QUOTA.window) <= QUOTA.requests && mostWithin(QUOTA.burstWindow) <= QUOTA.burst,
  };
}

/** Two reads at the first start, and one write for each pull request. */
const ALL_ARRIVED = { recorded: PULLS, refused: 0, requests: 2 + PULLS, isWithinBothWindows: true };

describe('sixty pull requests at once', () => {
  it('all arrive, none refused, as fast as the quota allows', async () => {
    await open();
    await openAll();
    await world.settled();
    expect(await outcome()).toEqual(ALL_ARRIVED);
    // Three windows of thirty: the last of 62 requests may go when the second window is over.
    expect(world.clock.elapsed()).toBeLessThanOrEqual(2 * QUOTA.window + 2 * MINUTE);
  });

  it('with restarts in the middle', async () => {
    await open();
    await openAll();
    for (const _ of Array.from({ length: 6 })) {
      await travel(3 * MINUTE);
      await world.restart();
    }
    await world.settled();
    expect(await outcome()).toEqual(ALL_ARRIVED);
  });

  const JUMPS = [
    ['back', -DAY],
    ['ahead', DAY],
  ] as const;
  it.each(sampleOf(JUMPS, 2))(
    'with the wall clock set a day %s in the middle: none is refused, nothing stands still',
    async (_name, jump) => {
      await open();
      await openAll();
      await travel(2 * MINUTE);
      world.clock.jumpWall(jump);
      await travel(2 * MINUTE);
      await world.restart();
      await world.settled(2 * QUOTA.window + 2 * MINUTE);
      expect(await outcome()).toEqual(ALL_ARRIVED);
    },
  );

  it.runIf(isDeep)('with the wall clock set back a day just before they are due', async () => {
    await open();
    await openAll();
    world.clock.jumpWall(-DAY);
    await world.settled(2 * QUOTA.window + 2 * MINUTE);
    expect(await outcome()).toEqual(ALL_ARRIVED);
  });
});
