import { afterEach, describe, expect, it } from 'vitest';
import { SyncError } from '../../src/model/errors.ts';
import { jobRuns } from '../../src/store/installation/job-runs.ts';
import { createForge, type Forge, type ForgePull, forgeItem, pulls } from '../support/fakes/forge.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';

const HOUR = 3_600_000;
const THEN = Date.UTC(2026, 0, 4, 9);

let world: World;
afterEach(() => world.close());

/** A daemon that has polled and swept everything once: the first sweep comes at a random part of its interval. */
async function openSwept(forge: Forge, options: Partial<WorldOptions> = {}): Promise<void> {
  await open(forge, '1h', options);
  await swept();
  forge.asked.length = 0;
}

/** A daemon that has polled everything once. */
async function open(forge: Forge, sweep: string, options: Partial<WorldOptions> = {}): Promise<void> {
  const connections = {
    forge: { connector: 'gitlab', webhookSecrets: 'a webhook secret for tests only', poll: '30d', sweep },
  };
  world = await createWorld({ ...options, connectors: [forge.connector], config: { connections } });
  await world.until(async () => (await status()).lastPollAt !== null);
  await world.settled();
  forge.asked.length = 0;
}

async function status() {
  const [connection] = (await world.partition().status()).connections;
  if (!connection) throw new Error('there is no connection');
  return connection;
}

/** Waits for the end of the next sweep of all units, or of the one that runs. */
async function swept(): Promise<void> {
  const before = await lastRun();
  await world.until(async () => (await lastRun()) !== before, 3 * HOUR);
  await world.settled();
}

async function lastRun(): Promise<number | undefined> {
  return (await jobRuns(world.partition().store).read()).get('sweep.forge');
}

let delivered = 0;
function forgeWebhook(pull: ForgePull, more: object = {}) {
  const headers = {
    'x-forge-secret': 'a webhook secret for tests only',
    'x-forge-delivery': String(++delivered),
    'content-type': 'application/json',
  };
  return { headers, body: JSON.stringify([{ ...forgeItem('app', pull), ...more }]) };
}

const gone = async () => (await world.partition().status()).gone.map(({ key }) => key.split(':').slice(2).join(' '));

async function states(): Promise<string[]> {
  return (await world.records()).map(({ identifier, state }) => `${identifier} ${state}`).sort();
}

describe('a sweep', () => {
  it('finds what was deleted without an event, by asking for it, and writes nothing about it', async () => {
    const forge = createForge({ app: pulls(8, THEN), web: pulls(2, THEN, 101) });
    await openSwept(forge);
    const before = await states();
    forge.repositories.set(
      'app',
      pulls(8, THEN).filter(({ number }) => number !== 2 && number !== 7),
    );
    await swept();
    expect(forge.asked.toSorted()).toEqual(
      ['units', 'sweep app 1', 'sweep app 2', 'sweep web 1', 'fetch app 2', 'fetch app 7'].toSorted(),
    );
    expect((await gone()).sort()).toEqual(['app pull 2', 'app pull 7']);
    expect(await states()).toEqual(before);

    forge.asked.length = 0;
    await swept();
    expect(forge.asked.filter((each) => each.startsWith('fetch'))).toEqual([]);
  });

  it('finds what came back, though no time of it moved, and mirrors it again', async () => {
    const forge = createForge({ app: pulls(4, THEN) });
    await openSwept(forge);
    const [, second] = pulls(4, THEN) as [unknown, ForgePull];
    forge.repositories.set(
      'app',
      pulls(4, THEN).filter(({ number }) => number !== 2),
    );
    await swept();
    expect(await gone()).toEqual(['app pull 2']);

    forge.repositories.set('app', pulls(4, THEN));
    forge.asked.length = 0;
    await swept();
    expect(forge.asked.filter((each) => each.startsWith('fetch'))).toEqual(['fetch app 2']);
    expect(await gone()).toEqual([]);

    await world.post('forge', forgeWebhook({ ...second, title: 'Renamed', updatedAt: second.updatedAt + 1 }));
    await world.settled();
    expect((await world.records()).map(({ title }) => title)).toContain('Renamed');
  });

  it('that does not reach its end asks for nothing', async () => {
    const forge = createForge({ app: pulls(8, THEN) });
    await openSwept(forge);
    const before = await status();
    forge.repositories.set('app', pulls(5, THEN, 4));
    forge.onAsk = (what) => {
      if (what === 'sweep app 2') throw new SyncError('forbidden', 'no more');
    };
    await world.until(() => forge.asked.includes('sweep app 2'), 2 * HOUR);
    await world.clock.advance(60_000);
    await world.settled();
    expect(forge.asked).toEqual(['units', 'sweep app 1', 'sweep app 2']);
    expect(await gone()).toEqual([]);
    const rows = await world.partition().store.query.selectFrom('sweeps').selectAll().execute();
    expect(rows).toMatchObject([{ unit: 'app', completed_at: before.lastSweepAt, error: 'forbidden: no more' }]);
  });

  it('of a unit that is not there closes nothing and is shown', async () => {
    const forge = createForge({ app: pulls(3, THEN), web: pulls(3, THEN, 101) });
    await openSwept(forge);
    forge.onAsk = (what) => {
      if (what === 'sweep app 1') throw new SyncError('not_found', 'there is no app');
    };
    await swept();
    expect((await status()).missingUnits).toEqual(['app']);
    expect(await gone()).toEqual([]);
    expect(forge.asked.filter((each) => each.startsWith('fetch'))).toEqual([]);
    expect(await world.metrics()).toContain('worksync_missing_units{workspace="test",connection="forge"} 1');

    forge.onAsk = () => undefined;
    await swept();
    expect((await status()).missingUnits).toEqual([]);
  });

  it('comes once a day where nothing is said, and never where it is off', async () => {
    const forge = createForge({ app: pulls(3, THEN) });
    const connections = {
      forge: { connector: 'gitlab', poll: '30d' },
      other: { connector: 'gitlab', poll: '30d', sweep: 'off' },
    };
    world = await createWorld({ connectors: [forge.connector], config: { connections } });
    const sweeps = () => forge.asked.filter((each) => each.startsWith('sweep'));
    await world.until(() => sweeps().length === 1, 27 * HOUR);
    await world.clock.advance(21 * HOUR);
    expect(sweeps()).toHaveLength(1);
    await world.clock.advance(6 * HOUR);
    expect(sweeps()).toHaveLength(2);
  });
});
