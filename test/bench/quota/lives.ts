import type { Clock } from '../../../src/platform/lib/clock.ts';
import { createTravellingClock, type TravellingClock } from '../../support/fakes/travelling-clock.ts';
import { openStore } from '../../support/harness/store.ts';
import { atOnce } from './at-once.ts';
import { knowLists, type QuotaDaemonOptions, startDaemon } from './daemon.ts';
import { type Played, untilSettled } from './play.ts';
import { createChance, randomDurations } from './references/chance.ts';
import { createServer } from './server.ts';

export interface LivesOptions {
  readonly changes: number;
  readonly seed: number;
  /** Kills, half of them at moments with a request in flight. */
  readonly kills: number;
  /** Seconds within which the kills fall. */
  readonly within: number;
  /** Seconds until it is started again. */
  readonly down: number;
  /** `carried`: the clock runs on, and the times of the ledger count; `frozen`: the machine boots, and they do not. */
  readonly time: 'carried' | 'frozen';
  /** Each of them takes over what another process worked on. */
  readonly succession?: QuotaDaemonOptions['succession'];
}

/**
 * A daemon that is killed and started again over one database: what is committed is what a new process reads. Kills
 * fall between two turns of the event loop, when no transaction is open.
 */
export async function playLives(options: LivesOptions): Promise<Played> {
  const { changes, seed, kills, within, down, time, succession } = options;
  const chance = createChance(seed);
  const clock = createTravellingClock();
  const store = await openStore({ file: ':memory:' });
  await knowLists(store);
  const server = createServer({ clock, duration: randomDurations(seed), arrives: createChance(seed + 1).float });
  const start = (boot: Clock) => startDaemon({ store, clock: boot, server, succession, seed: chance.whole(1, 1e9) });
  let boot = bootOf(clock, 'boot-0');
  let daemon = await start(boot);
  await daemon.deliver(atOnce(changes));
  const moments = Array.from({ length: kills }, () => chance.between(0, within * 1_000)).sort((a, b) => a - b);
  for (const [index, moment] of moments.entries()) {
    await clock.advance(Math.max(0, moment - clock.elapsed()));
    if (index % 2 === 0) await clock.until(() => server.inFlight > 0);
    daemon.kill();
    await clock.advance(down * 1_000);
    if (time === 'frozen') boot = bootOf(clock, `boot-${index + 1}`);
    daemon = await start(boot);
  }
  await untilSettled(store, clock);
  const took = clock.elapsed() / 1_000;
  await daemon.stop();
  await store.close();
  return { server, took };
}

/** The clock as this boot of the machine shows it. */
function bootOf(clock: TravellingClock, bootId: string): Clock {
  const bootedAt = clock.elapsed();
  return {
    now: () => clock.now(),
    monotonic: () => clock.elapsed() - bootedAt,
    bootId,
    after: (ms, call) => clock.after(ms, call),
  };
}
