import { afterEach, expect, it } from 'vitest';
import { createChance } from '../bench/quota/references/chance.ts';
import type { Fields } from '../bench/quota/references/trace.ts';
import { optimum } from '../bench/quota/references/windows.ts';
import { type Absence, awayAtTimes, hangs, refuses } from '../support/fakes/absence.ts';
import type { TravellingClock } from '../support/fakes/travelling-clock.ts';
import { createWeather, type Weather } from '../support/fakes/weather.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { allRecords } from '../support/harness/people.ts';
import { githubVendor } from '../support/vendors/provider-servers/github.ts';
import { openProvider, type Provider } from '../support/vendors/provider-servers/provider.ts';

/** A provider is away for a day: no webhook comes, and no poll is answered. Then everything that happened there is caught up with. */

const VENDOR = githubVendor('a webhook secret for tests only');
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** Pull requests that were there before, and all that are there after the day. */
const BEFORE = 560;
const AFTER = 680;
/** The items that change or appear during the outage. Some change several times. */
const CHANGED = 640;
const ACTS = 1_000;

let world: World;
let provider: Provider;
let weather: Weather;
let absence: Absence | undefined;
afterEach(async () => {
  await world.close();
  await provider.close();
});

async function open(): Promise<void> {
  absence = undefined;
  let clock: TravellingClock | undefined;
  weather = createWeather(() => clock?.elapsed() ?? 0);
  const provides = { present: () => absence, clock: () => world.clock };
  world = await createWorld({ faults: weather, http: (own) => awayAtTimes(own, 'github', provides) });
  clock = world.clock;
  provider = await openProvider(VENDOR, { clock });
  happen(BEFORE, numbers(1, BEFORE));
  const github = { connector: 'github', ...VENDOR.options(provider.url) };
  // The guard would hold the items from before the outage, which are not tested here.
  const config = { connections: { github }, guard: { creations: 'off' }, quota: { requests: 200, burst: 40 } };
  await world.restart({ config });
  await world.until(() => written().length === BEFORE, DAY);
  await travel(HOUR);
}

const numbers = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

/** One change of each, now. @param nth makes it another than those before */
function happen(nth: number, changing: readonly number[]): void {
  for (const number of changing) {
    const fields: Fields = {
      ...{ title: `Change ${number}, state ${nth}`, description: '', draft: false, head: String(nth) },
      ...{ state: number % 5 === 0 && nth > BEFORE ? 'merged' : 'open', reviewers: [], labels: [], assignees: [] },
    };
    const line = { at: 0, updated: 0, connection: 'github', event: 'edited', item: `1/${number}`, fields };
    provider.happen(line, world.clock.now());
  }
}

async function travel(ms: number): Promise<void> {
  const end = world.clock.elapsed() + ms;
  await world.until(() => world.clock.elapsed() >= end, ms + HOUR);
}

/** When records were written, milliseconds of travel. */
const written = () => weather.arrivals.filter(({ method }) => method === 'POST').map(({ at }) => at);

const records = () => allRecords(world.people);

it.each([
  ['refuses', refuses],
  ['never answers', hangs],
])('a day in which a provider %s is caught up with in at most 1.2 times what the quota takes', async (_name, away) => {
  await open();
  const before = written().length;
  absence = away;
  const chance = createChance(3);
  const changing = numbers(AFTER - CHANGED + 1, AFTER);
  // Each of them changes at least once, most of them early or late in the day, and some again and again.
  const acts = [...changing, ...Array.from({ length: ACTS - CHANGED }, () => chance.whole(AFTER - CHANGED + 1, AFTER))];
  for (const [index, number] of acts.entries()) {
    happen(BEFORE + 1 + index, [number]);
    await travel(DAY / ACTS);
  }
  expect(written().length).toBe(before);
  const { causes } = await world.partition().status();
  expect(causes.map(({ code }) => code)).toEqual(['connections_failing']);

  absence = undefined;
  const healed = world.clock.elapsed();
  await world.until(() => written().length >= before + CHANGED, DAY);
  const took = written().at(-1)! - healed;
  await travel(HOUR);
  await world.settled();
  // The fewest requests, none refused, in little more than the shortest time that the quota has for so many.
  expect(written().length - before).toBe(CHANGED);
  expect((await world.requests()).refused).toBe(0);
  expect(took / 1_000 / optimum(CHANGED)).toBeLessThanOrEqual(1.2);
  expect(await records()).toMatchObject(numbers(1, AFTER).map((number) => VENDOR.record(provider.pulls.get(number)!)));
  expect(await records()).toHaveLength(AFTER);
  expect((await world.partition().status()).verdict).toBe('ok');
});
