import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Caps at the service equal to the daemon's, with nothing left for others: any miscount would be refused. */
const QUOTA = { requests: 30, window: 15 * MINUTE, burst: 8, burstWindow: MINUTE };
const PULLS = 60;

let world: World;
beforeEach(async () => {
  world = await createWorld({ quota: QUOTA });
  await openAll();
});
afterEach(() => world.close());

/** Sixty pull requests open at the same moment. */
async function openAll(): Promise<void> {
  await Promise.all(Array.from({ length: PULLS }, (_, index) => world.pull({ number: index + 1 })));
}

/** Most requests in any window of this length, over the arrivals at the service. */
function mostWithin(length: number): number {
  const times = world.weather.arrivals.map(({ at }) => at);
  const counts = times.map((start) => times.filter((at) => at >= start && at < start + length).length);
  return Math.max(...counts);
}

async function outcome() {
  return {
    recorded: (await world.service().statistics()).pullRequests,
    refused: (await world.requests()).refused,
    requests: world.weather.arrivals.length,
    isWithinBothWindows: mostWithin(QUOTA.window) <= QUOTA.requests && mostWithin(QUOTA.burstWindow) <= QUOTA.burst,
  };
}

/** Two reads at the first start, and one write for each pull request. */
const ALL_ARRIVED = { recorded: PULLS, refused: 0, requests: 2 + PULLS, isWithinBothWindows: true };

describe('sixty pull requests at once', () => {
  it('all arrive, none refused, as fast as the quota allows', async () => {
    await world.settled();
    expect(await outcome()).toEqual(ALL_ARRIVED);
    // Three windows of thirty: the last of 62 requests may go when the second window is over.
    expect(world.clock.elapsed()).toBeLessThanOrEqual(2 * QUOTA.window + 2 * MINUTE);
  });

  it('with restarts, and the wall clock set back and ahead a day in the middle', async () => {
    world.clock.jumpWall(-DAY);
    for (const jump of [0, -DAY, 0, 2 * DAY]) {
      await world.pass(3 * MINUTE);
      world.clock.jumpWall(jump);
      await world.pass(2 * MINUTE);
      await world.restart();
    }
    await world.settled(2 * QUOTA.window + 2 * MINUTE);
    expect(await outcome()).toEqual(ALL_ARRIVED);
  });
});
