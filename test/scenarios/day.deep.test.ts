import { afterEach, expect, it } from 'vitest';
import type { Faults } from '../../src/reference-service/http/pipeline.ts';
import { type Chance, createChance } from '../bench/quota/references/chance.ts';
import { generateDay } from '../bench/quota/references/day.ts';
import { fewestWrites } from '../bench/quota/references/lag.ts';
import type { Event } from '../bench/quota/references/trace.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { bitbucketVendor } from '../support/vendors/provider-servers/bitbucket.ts';
import { githubVendor } from '../support/vendors/provider-servers/github.ts';
import { gitlabVendor } from '../support/vendors/provider-servers/gitlab.ts';
import {
  type ExpectedRecord,
  type HeldPull,
  openProvider,
  type Provider,
  type Vendor,
} from '../support/vendors/provider-servers/provider.ts';

const SECRET = 'a webhook secret for tests only';
const VENDORS = [githubVendor(SECRET), gitlabVendor(SECRET), bitbucketVendor(SECRET)];
const QUOTA = { requests: 200, window: '15m', burst: 40, burstWindow: '1m', share: 1 };
/** Seconds within which every change is to be seen. */
const VISIBILITY = 60;
/** Events in working hours per request that the quota allows there. */
const LOAD = 0.03;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

let world: World;
let providers: Provider[] = [];
afterEach(async () => {
  await world.close();
  for (const provider of providers) await provider.close();
});

/** The newest value of each field in webhooks and answers. */
interface Knowledge {
  readonly events: Event[];
  tell(vendor: Vendor, pull: HeldPull, by: 'hook' | 'api'): void;
}

function knowledge(now: () => number): Knowledge {
  const known = new Map<string, Map<string, { updated: number; value: unknown }>>();
  const events: Event[] = [];
  return {
    events,
    tell(vendor, pull, by) {
      const item = `${vendor.id}/${pull.number}`;
      const fields = known.get(item) ?? new Map();
      known.set(item, fields);
      for (const [name, value] of Object.entries(vendor.said(pull, by)))
        if ((fields.get(name)?.updated ?? 0) <= pull.updated) fields.set(name, { updated: pull.updated, value });
      const state = JSON.stringify([...fields].map(([name, { value }]) => JSON.stringify([name, value])).sort());
      const at = (now() - day) / 1_000;
      events.push({ at, item, state, finished: pull.fields.state !== 'open' });
    },
  };
}

/** Requests of the daemon at the workspace, by method and the kind of thing. */
type Seen = Map<string, number>;

/** When the day begins, epoch milliseconds. */
let day: number;

async function openDay(seen: Seen): Promise<Knowledge> {
  const isDaemon = (headers: Readonly<Record<string, unknown>>) => String(headers['authorization']).includes('wsk_');
  const faults: Faults = {
    async before({ method, url, headers }) {
      const kind = /(pull-request-records|work-items|tasks)(?:\?|$)/.exec(url)?.[1] ?? 'other';
      if (isDaemon(headers)) seen.set(`${method} ${kind}`, (seen.get(`${method} ${kind}`) ?? 0) + 1);
      return undefined;
    },
  };
  // The providers stand before the daemon knows their addresses, on the clock that the world brings.
  world = await createWorld({ faults });
  await world.settled();
  const { clock } = world;
  const told = knowledge(() => clock.now());
  providers = await Promise.all(
    VENDORS.map((vendor) => openProvider(vendor, { clock, told: (pull) => told.tell(vendor, pull, 'api') })),
  );
  const connections = Object.fromEntries(
    providers.map(({ vendor, url }) => [
      vendor.id,
      { connector: vendor.id, ...vendor.options(url), webhookSecrets: SECRET, poll: '10m', sweep: '12h' },
    ]),
  );
  await world.restart({ config: { connections, quota: { ...QUOTA, visibility: `${VISIBILITY}s` } } });
  day = clock.now();
  return told;
}

interface Step {
  readonly at: number;
  readonly do: () => Promise<void> | void;
}

/** Goes to each moment in turn, the daemon at work in between. */
async function play(steps: readonly Step[]): Promise<void> {
  for (const step of steps.toSorted((a, b) => a.at - b.at)) {
    const wait = step.at - world.clock.now();
    if (wait > 0) await world.pass(wait);
    await step.do();
  }
}

/** When a webhook arrives, milliseconds after its event: soon, late enough to be overtaken, twice, or never. */
function arrivals(chance: Chance): number[] {
  if (chance.happens(0.1)) return [];
  const first = chance.happens(0.85) ? chance.between(200, 2_000) : chance.between(5_000, 10 * MINUTE);
  return chance.happens(0.08) ? [first, first + chance.lognormal(3 * MINUTE, 1)] : [first];
}

const records = async () => (await world.records()) as unknown as ExpectedRecord[];

it('a day of all three providers, with lost, repeated and late webhooks, ends in their state at the fewest requests', async () => {
  const seen: Seen = new Map();
  const told = await openDay(seen);
  const chance = createChance(7);
  const tasks = await Promise.all(['Login', 'Search'].map(async (title) => await world.bug(title)));
  const keys = tasks.map(({ key }) => key);
  const named = new Set<number>();
  let lost = 0;

  const acts = generateDay(5, LOAD).filter(({ event }) => event !== 'replay' && event !== 'poll');
  const steps: Step[] = acts.flatMap((act, index) => {
    const number = Number(act.item.split('/')[1]);
    const provider = providers[number % providers.length] as Provider;
    const { vendor } = provider;
    // Some of them name a task, in their title.
    const key = number % 5 === 0 ? keys[(number / 5) % keys.length] : undefined;
    if (key !== undefined) named.add(number);
    const fields = { ...act.fields, title: key === undefined ? act.fields.title : `${key}: ${act.fields.title}` };
    const at = day + act.at * 1_000;
    let pull: HeldPull | undefined;
    const happens: Step = { at, do: () => void (pull = provider.happen({ ...act, fields }, day)) };
    const delays = arrivals(chance);
    if (delays.length === 0) lost++;
    const deliver = async () => {
      told.tell(vendor, pull as HeldPull, 'hook');
      expect(await world.post(vendor.id, vendor.hook(pull as HeldPull, act.event, `delivery-${index}`))).toBe(202);
    };
    return [happens, ...delays.map((delay): Step => ({ at: at + delay, do: deliver }))];
  });
  await play(steps);
  await world.pass(HOUR / 2);
  await world.settled();

  expect(lost).toBeGreaterThan(10);
  expect(providers.flatMap(({ unanswered }) => unanswered)).toEqual([]);
  const expected = providers.flatMap(({ vendor, pulls }) => [...pulls.values()].map((pull) => vendor.record(pull)));
  const byName = (records: readonly ExpectedRecord[]) =>
    Object.fromEntries(records.map((record) => [`${record.provider} ${record.identifier}`, record]));
  const held = byName(await records());
  expect(Object.keys(held).sort()).toEqual(Object.keys(byName(expected)).sort());
  expect(held).toMatchObject(byName(expected));
  const { deliveries, changes } = await world.partition().status();
  expect(deliveries.quarantined).toBe(0);
  expect(changes.byState).toEqual({ pending: 0, sending: 0, unknown: 0, held: 0 });

  const fewest = fewestWrites(told.events, VISIBILITY);
  expect(seen.get('POST pull-request-records')).toBeLessThanOrEqual(Math.ceil(1.03 * fewest));
  expect(seen.get('POST pull-request-records')).toBeGreaterThanOrEqual(expected.length);
  expect(seen.get('POST work-items')).toBe(named.size);
  // The first reads, and the tasks once more when a title names one that came later.
  expect([seen.get('GET pull-request-records'), seen.get('GET tasks')]).toEqual([1, 2]);
  const counted = [...seen.values()].reduce((sum, count) => sum + count, 0);
  expect(await world.requests()).toEqual({ received: counted, refused: 0 });
});
