import type { Clock } from '../../../src/platform/lib/clock.ts';
import type { QuotaOptions } from '../../../src/sync/quota/limits.ts';
import { createTravellingClock, type TravellingClock } from '../../support/fakes/travelling-clock.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';
import { knowLists } from '../../support/rows/records-route.ts';
import { ADDRESS, type Moving, type QuotaDaemon, type QuotaDaemonOptions, startDaemon } from './daemon.ts';
import { createChance, randomDurations } from './references/chance.ts';
import { atOnce, type Line } from './references/trace.ts';
import { createServer, type Server } from './server.ts';

export interface PlayOptions {
  readonly lines: readonly Line[];
  readonly duration?: () => number;
  readonly arrives?: () => number;
  readonly quota?: Partial<QuotaOptions>;
  readonly visibility?: number;
  /** False: the daemon starts for the first time and reads both lists before it writes. */
  readonly knowsLists?: boolean;
  /** See the daemon: only lines that are the newest of their item. */
  readonly straight?: boolean;
  readonly meddle?: (clock: TravellingClock) => void;
  /** Tasks that move, made beside the clock of the day. */
  readonly moving?: (clock: TravellingClock, store: OpenedStore) => Promise<Moving>;
  readonly others?: (clock: TravellingClock, server: Server) => void;
}

export interface Played {
  readonly server: Server;
  readonly took: number;
}

export async function play(options: PlayOptions): Promise<Played> {
  const { quota, visibility, straight, duration = () => 0.15, arrives = () => 0.5, knowsLists = true } = options;
  const clock = createTravellingClock();
  options.meddle?.(clock);
  const store = await openStore({ file: ':memory:' });
  if (knowsLists) await knowLists(store.query, ADDRESS);
  const server = createServer({ clock, duration, arrives });
  options.others?.(clock, server);
  const moving = await options.moving?.(clock, store);
  const daemon = await startDaemon({ store, clock, server, quota, visibility, straight, moving });
  await deliverAll(clock, daemon, options.lines);
  await untilSettled(store, clock);
  const took = clock.elapsed() / 1_000;
  await daemon.stop();
  await store.close();
  return { server, took };
}

export async function deliverAll(clock: TravellingClock, daemon: QuotaDaemon, lines: readonly Line[]): Promise<void> {
  for (let first = 0; first < lines.length; ) {
    const at = (lines[first] as Line).at;
    let end = first;
    while (lines[end]?.at === at) end++;
    await clock.advance(Math.max(0, at * 1_000 - clock.elapsed()));
    await daemon.deliver(lines.slice(first, end));
    first = end;
  }
  await clock.advance(0);
}

export async function untilSettled(store: OpenedStore, clock: TravellingClock): Promise<void> {
  while (!(await isSettled(store))) {
    if (!(await clock.toNextTimer())) throw new Error('changes are left, and nothing waits for time to pass');
  }
}

/** Answers that nobody takes over do not count: the daemon that plays a day without its inbox leaves them there. */
async function isSettled({ query }: OpenedStore): Promise<boolean> {
  const change = await query.selectFrom('outbox').select('entity').limit(1).executeTakeFirst();
  if (change) return false;
  const pending = query.selectFrom('inbox').select('id').where('state', '=', 'pending').where('source', '!=', 'answer');
  return (await pending.limit(1).executeTakeFirst()) === undefined;
}

export interface LivesOptions {
  readonly changes: number;
  readonly seed: number;
  /** Kills, half of them at moments with a request in flight. */
  readonly kills: number;
  readonly within: number;
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
  await knowLists(store.query, ADDRESS);
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

function bootOf(clock: TravellingClock, bootId: string): Clock {
  const bootedAt = clock.elapsed();
  return {
    now: () => clock.now(),
    monotonic: () => clock.elapsed() - bootedAt,
    bootId,
    after: (ms, call) => clock.after(ms, call),
  };
}
