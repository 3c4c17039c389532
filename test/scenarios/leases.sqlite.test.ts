import { afterEach, describe, expect, it } from 'vitest';
import { createClockOffset } from '../../src/cluster/clock-offset.ts';
import type { LeaseHolder } from '../../src/cluster/lease-holder.ts';
import { createPostgresLeaseHolder } from '../../src/cluster/postgres-holder.ts';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import type { Installation } from '../../src/store/installation/installation.ts';
import { localTime } from '../../src/store/installation/leases.ts';
import type { TravellingClock } from '../support/fakes/travelling-clock.ts';
import { createWakefulness, type Wakefulness } from '../support/fakes/wakefulness.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';

const TTL = 3_000;
const SECOND = 1_000;
const NOBODY: Pick<TravellingClock, 'after'> = { after: () => () => undefined };

const facts = () => ({ version: 'test', config: '', startedAt: 0, host: 'here' });

/** @param timers of a process that stands still: none ever goes off */
function sharing(address: string, timers?: Pick<TravellingClock, 'after'>) {
  return (database: Installation, clock: TravellingClock): LeaseHolder => {
    const { after } = timers ?? clock;
    return createPostgresLeaseHolder({
      storeClock: createClockOffset(),
      elapsed: clock.elapsed,
      after,
      storeTime: localTime(clock),
      database,
      random: systemRandom(),
      logger: silentLogger,
      address: () => address,
      facts,
    });
  };
}

let world: World;
let opened: World | undefined;
const open = async (options: WorldOptions) => {
  world = opened = await createWorld(options);
};
afterEach(async () => {
  await opened?.close();
  opened = undefined;
});

/** A daemon whose timers wait while it stands still. */
async function openSleepy(): Promise<Wakefulness> {
  const life = createWakefulness();
  const timers = ({ after }: TravellingClock) => ({
    after: (ms: number, call: () => void) => after(ms, () => life.whenAwake(call)),
  });
  await open({
    hold: (installation, clock) => sharing('http://first', timers(clock))(installation, clock),
  });
  return life;
}

const names = () =>
  world
    .workspaces()
    .partitions()
    .map(({ name }) => name);
const brokenCodes = () => [...world.workspaces().broken().values()].map(({ code }) => code);

describe('a daemon over a shared database', () => {
  it('opens what it holds, and gives back what another process is to hold: its webhooks are to come again', async () => {
    await open({ hold: sharing('http://first') });
    world.configure('other', {});
    await world.reload();
    expect(names().sort()).toEqual(['other', 'test']);
    const second = sharing('http://second')(world.installation(), world.clock);
    await second.want(['test', 'other']);
    await world.until(() => names().length === 1, 5 * SECOND);
    await world.until(() => [...['test', 'other']].some((name) => second.leaseOf(name)), 5 * SECOND);
    const left = ['test', 'other'].find((name) => second.leaseOf(name)) as string;
    expect(names()).not.toContain(left);
    expect(brokenCodes()).toEqual(['held_elsewhere']);
    const answer = await fetch(`${world.daemon().address}/webhooks/${left}/github`, { method: 'POST', body: '{}' });
    expect(answer.status).toBe(503);
    await second.stop();
    await world.until(() => names().length === 2, 5 * SECOND);
    expect(brokenCodes()).toEqual([]);
  });

  it('does not start what another one holds, and goes on with it when that one has died', async () => {
    await open({ hold: sharing('http://first') });
    await world.settled();
    await world.pull({ number: 1 });
    await world.settled();
    await world.restart({
      async meanwhile(data) {
        const { openInstallation } = await import('../../src/store/installation/installation.ts');
        const installation = await openInstallation(data, { random: systemRandom() });
        await sharing('http://second', NOBODY)(installation, world.clock).want(['test']);
        await installation.close();
      },
    });
    expect([names(), brokenCodes()]).toEqual([[], ['held_elsewhere']]);
    await world.until(() => names().length === 1, TTL + 2 * SECOND);
    await world.pull({ number: 2 });
    await world.settled();
    expect((await world.partition().status()).pullRequests.total).toBe(2);
  });

  it('that stood still for too long commits and sends nothing more for what was taken from it', async () => {
    const first = await openSleepy();
    await world.settled();
    const before = world.partition();
    first.sleep();
    const second = sharing('http://second')(world.installation(), world.clock);
    await second.want(['test']);
    await world.clock.advance(TTL + 2 * SECOND);
    expect(second.leaseOf('test')?.isTrusted()).toBe(true);
    await expect(before.store.commit(async () => undefined)).rejects.toMatchObject({ code: 'lease_lost' });
    await expect(before.store.commitRelaxed(async () => undefined)).rejects.toMatchObject({ code: 'lease_lost' });
    const { received } = await world.requests();
    const request = {
      method: 'GET',
      path: '/workspaces/current/tasks',
      query: '',
      headers: {},
      route: 'listTasks',
    } as const;
    await expect(before.send(request, { lane: 'interactive' })).rejects.toMatchObject({ code: 'lease_lost' });
    const [provider] = before.connections;
    const asked = provider?.connection.identify?.('acme/api', new AbortController().signal);
    await expect(asked).rejects.toMatchObject({ code: 'lease_lost' });
    expect((await world.requests()).received).toBe(received);
    first.wake();
    await world.until(() => names().length === 0, 10 * SECOND);
    expect(brokenCodes()).toEqual(['held_elsewhere']);
    await second.stop();
    await world.until(() => names().length === 1, 10 * SECOND);
    expect(world.partition()).not.toBe(before);
  });

  it('that stood still leaves what comes meanwhile to whoever is next, and blames no delivery for it', async () => {
    const first = await openSleepy();
    await world.settled();
    first.sleep();
    const second = sharing('http://second')(world.installation(), world.clock);
    await second.want(['test']);
    await world.clock.advance(TTL + 2 * SECOND);
    await world.pull({ number: 1 });
    await world.clock.advance(60 * SECOND);
    const { query } = world.partition().store;
    const rows = await query
      .selectFrom('inbox')
      .select(['state', 'attempts'])
      .where('source', '=', 'webhook')
      .execute();
    expect(rows).toEqual([{ state: 'pending', attempts: 0 }]);
    first.wake();
    await world.until(() => names().length === 0, 10 * SECOND);
    await second.stop();
    await world.until(() => names().length === 1, 10 * SECOND);
    await world.settled();
    expect((await world.partition().status()).pullRequests.total).toBe(1);
  });
});
