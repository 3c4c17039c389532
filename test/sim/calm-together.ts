import { chanceOf } from '../bench/quota/references/chance.ts';
import { whenReached } from './calm-alone.ts';
import { MINUTE, OLD_ONES, PROMPT, SECOND, type Ways, whileOnItsWay } from './calm-ways.ts';
import { WORKSPACE } from './network.ts';
import { createOperator, leftToDo } from './operator.ts';
import type { Forge, Plan } from './plan.ts';
import type { Replica, Site } from './site.ts';

export async function together(site: Site, { seed, forges }: Plan, ways: Ways): Promise<void> {
  const { promised, seen, change } = ways;
  const { replicas } = site;
  const shared = () => promised('an even share', 15 * SECOND, () => site.isShared());
  const ownerOf = async () => replicas[await site.ownerOf()];
  await shared();
  for (const end of ['stop', 'bury', 'sleep'] as const) {
    const owner = await ownerOf();
    if (!owner) return;
    const { life } = owner.running as NonNullable<typeof owner.running>;
    const leases = await site.leases();
    const others = leases.filter(({ address }) => address !== owner.origin);
    const before = site.counts.of(TAKEOVERS);
    if (end === 'sleep') life.sleep();
    else await site[end](owner);
    const limit = end === 'stop' ? 2_500 : 8 * SECOND;
    await promised(`another owner after ${end}`, limit, async () => ![owner.number, -1].includes(await site.ownerOf()));
    const kept = async () => {
      const present = (await site.leases()).map((lease) => JSON.stringify(lease));
      return others.every((lease) => present.includes(JSON.stringify(lease)));
    };
    await promised(`the others keep what they have after ${end}`, SECOND, kept);
    await promised('who owns it, by all who live', 2_500, () => isKnown(site));
    const taken = end === 'stop' ? 0 : leases.length - others.length;
    await promised(
      `${taken} takeovers counted after ${end}`,
      2_500,
      async () => site.counts.of(TAKEOVERS) - before === taken,
    );
    await promised('who lives, by all who live', 2_500, () => isTold(site));
    await change(PROMPT, { labels: [end] });
    await seen(`a webhook after ${end} of the owner`, 2 * MINUTE);
    if (end === 'sleep') life.wake();
    else await site.during(site.start(owner));
    await shared();
  }
  await rests(site);
  await stopsAmidRenewals(site, seed, ways);
  // For less than leases are trusted, and for longer.
  for (const seconds of [1, 8]) await databaseAway(site, seconds, ways);
  await databaseHangs(site, ways);
  await promised('an owner after the database was away', 12 * SECOND, async () => (await site.ownerOf()) !== -1);
  await shared();
  await change(PROMPT, { labels: ['away'] });
  await seen('a webhook after the database was away', 2 * MINUTE);
  await clockSet(site, forges[0] as Forge, chanceOf(seed, 'clock').happens(0.5) ? 1 : -1, ways);
}

/** Longer than any window of the quota. */
const SET_BY = 20 * MINUTE;

/** Requests that were sent before a takeover count for the next owner. */
async function clockSet(
  site: Site,
  forge: Forge,
  direction: 1 | -1,
  { promised }: Pick<Ways, 'promised'>,
): Promise<void> {
  const { databaseServer, providers, replicas, pass } = site;
  if (!databaseServer) return;
  providers.addOld(forge, OLD_ONES);
  await site.during(createOperator(site).backfill(forge));
  await pass(50 * SECOND);
  const eras = await site.clockEras();
  databaseServer.ahead += direction * SET_BY;
  await promised(
    'it is noted that the clock of the database was set',
    2 * SECOND,
    async () => (await site.clockEras()) > eras,
  );
  await pass(2 * SECOND);
  if ((await site.clockEras()) > eras + replicas.length)
    site.tell('the clock of the database was set once, and is noted again and again');
  const owner = replicas[await site.ownerOf()];
  if (!owner) return;
  await site.bury(owner);
  await pass(10 * SECOND);
  await site.during(site.start(owner));
  for (let minute = 0; minute < 60 && (await leftToDo(site)) !== 0; minute++) await pass(MINUTE);
}

/** Statements of a process in a minute: two renewals a second, and a poll. */
const MOST_AT_REST = 400;

/** Where nothing happens processes ask the database for little more than their renewals. */
async function rests({ statements, pass, replicas, tell }: Site): Promise<void> {
  const before = statements.count();
  await pass(MINUTE);
  const [ran, most] = [statements.count() - before, MOST_AT_REST * replicas.length];
  if (ran > most) tell(`waste: ${ran} statements in a minute of rest`);
}

/** Seconds for which a lease is trusted that is not renewed. */
const LEASE = 3;

const TAKEOVERS = 'lease_takeovers_total';

/** Renewals are all that processes do where nothing happens. */
const STEPS_OF_RENEWALS = 6;

async function stopsAmidRenewals(site: Site, seed: number, { promised }: Pick<Ways, 'promised'>): Promise<void> {
  const chance = chanceOf(seed, 'stops');
  for (const { number } of site.replicas) {
    const replica = site.replicas[number] as Replica;
    const ending = whenReached(replica, chance.whole(1, STEPS_OF_RENEWALS));
    for (let second = 0; second < 10 && !ending.begun; second++) await site.pass(SECOND);
    await site.stop(replica, ending.begun);
    await promised(`all workspaces are owned after replica ${number} stopped`, 2_500, async () =>
      (await site.leases()).every(({ address }) => address !== replica.origin),
    );
    await site.during(site.start(replica));
    await promised('an even share', 15 * SECOND, () => site.isShared());
  }
}

async function databaseAway(site: Site, seconds: number, { promised }: Pick<Ways, 'promised'>): Promise<void> {
  const { databaseServer, pass } = site;
  if (!databaseServer) return;
  databaseServer.failing = 1;
  await pass(Math.min(seconds, LEASE) * SECOND);
  if (seconds > LEASE) {
    await promised('nobody works while the database is away', 2_500, async () => site.partition() === undefined);
    await pass((seconds - LEASE) * SECOND);
  }
  databaseServer.failing = 0;
  await pass(5 * SECOND);
}

/** A process that may not own the workspace any more does not wait for an answer of it. */
async function databaseHangs(site: Site, { change }: Pick<Ways, 'change'>): Promise<void> {
  const { databaseServer, pass, weather, clock, replicas, recorder } = site;
  if (!databaseServer) return;
  weather.turn(WORKSPACE, 'slow', 1, clock.elapsed() + 10 * MINUTE);
  await change(PROMPT, { labels: ['hangs'] });
  await whileOnItsWay(site);
  databaseServer.hang(true);
  const within = (LEASE + 1) * SECOND;
  await pass(within);
  const isCut = replicas.every(({ running }) => running?.life.requests() === 0);
  recorder.record({ what: 'promised', name: 'that requests are cut', within, took: isCut ? within : null });
  await pass(5 * SECOND);
  databaseServer.hang(false);
  weather.clear();
  await pass(5 * SECOND);
}

/** Whether all that are awake know who owns the workspace. */
async function isKnown({ replicas, ownerOf }: Site): Promise<boolean> {
  const { origin } = replicas[await ownerOf()] ?? {};
  const living = replicas.flatMap(({ running }) => (running?.life.isAwake() ? [running.composition] : []));
  const told = await Promise.all(living.map((composition) => composition.ownerAddress('test')));
  return origin !== undefined && told.every((address) => address === origin);
}

/** Whether each that is awake shows all of them, and no others. */
async function isTold({ replicas, status }: Site): Promise<boolean> {
  const living = replicas.filter(({ running }) => running?.life.isAwake());
  const origins = living.map(({ origin }) => origin).toSorted();
  for (const replica of living) {
    const { shared } = (await status(replica)) ?? {};
    const shown = shared?.replicas.map(({ address }) => address).toSorted() ?? [];
    if (JSON.stringify(shown) !== JSON.stringify(origins)) return false;
  }
  return true;
}
