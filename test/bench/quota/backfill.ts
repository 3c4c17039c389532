import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';
import { knowLists } from '../../support/rows/records-route.ts';
import { type Bench, figuresOf } from '../bench.ts';
import { ADDRESS, type QuotaDaemon, startDaemon } from './daemon.ts';
import { deliverAll, untilSettled } from './play.ts';
import { daysOf } from './references/day.ts';
import { freshness, quantile } from './references/lag.ts';
import { atOnce, eventLines, eventsOf, type Line } from './references/trace.ts';
import { available } from './references/windows.ts';
import { createServer, expectWithinWindows } from './server.ts';

const LOAD = 0.7;
const ITEMS = 10_000;
/** A backfill's items come in pieces, as the intake reads ahead, and another whenever few of the last are left. */
const AHEAD = 200;
const LOOK_EVERY = 60_000;

/**
 * A backfill of 10 000 items that starts with the day at 70 %: how late live events are seen, and how much of what live
 * requests left the backfill used until its last one.
 */
export const backfill: Bench = {
  figures: ['quota.backfill'],
  async run({ traces, split }) {
    const days = [];
    for (const lines of traces.length > 0 ? traces : daysOf(split, LOAD)) days.push(await playBackfill(lines, ITEMS));
    const name = 'quota.backfill';
    const lag = (part: number) => ({ unit: 's', of: ({ lags }: Filled) => quantile(lags, part) });
    return figuresOf(
      days,
      { ...lag(0.95), name: `${name}.live.p95`, aim: 10, everyRun: true },
      { ...lag(0.99), name: `${name}.live.p99` },
      { ...lag(1), name: `${name}.live.max` },
      {
        ...{ name, unit: 'of what is left', better: 'higher', aim: 0.95, everyRun: true },
        of: ({ used, left }) => used / left,
      },
      { name: `${name}.hours`, unit: 'h', of: ({ seconds }) => seconds / 3_600 },
    );
  },
};

type Filled = Awaited<ReturnType<typeof playBackfill>>;

export async function playBackfill(lines: readonly Line[], items: number) {
  const clock = createTravellingClock();
  const store = await openStore({ file: ':memory:' });
  await knowLists(store.query, ADDRESS);
  const server = createServer({ clock, duration: () => 0.15, arrives: () => 0.5 });
  const daemon = await startDaemon({ store, clock, server, straight: true });
  const feed = await feedBackfill(store, daemon, items);
  const look = () => {
    clock.after(LOOK_EVERY, look);
    void feed();
  };
  look();
  await deliverAll(clock, daemon, eventLines(lines));
  await clock.until(() => server.writes.filter(({ item }) => isFilled(item)).length === items, 200 * 3_600_000);
  await untilSettled(store, clock);
  expectWithinWindows(server);
  const filled = server.writes.filter(({ item }) => isFilled(item));
  const live = server.writes.filter(({ item }) => !isFilled(item));
  const seconds = Math.ceil(filled.at(-1)?.end ?? 0);
  const took = clock.elapsed() / 1_000;
  await daemon.stop();
  await store.close();
  return {
    lags: freshness(eventsOf(lines), live, took).lags,
    /** Requests of the backfill, and how many could have been sent until its last beside the live ones. */
    used: filled.length,
    left: available(
      live.map(({ arrival }) => arrival).filter((at) => at < seconds),
      seconds,
    ),
    seconds,
  };
}

/** @returns brings the next piece where little is left of the last */
async function feedBackfill(store: OpenedStore, daemon: QuotaDaemon, items: number): Promise<() => Promise<void>> {
  const rest = atOnce(items).map((line) => ({ ...line, item: line.item.replace(/^1/, FILLED) }));
  return async () => {
    const { count } = await store.query
      .selectFrom('outbox')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('lane', '=', 'backfill')
      .executeTakeFirstOrThrow();
    if (count < AHEAD / 2) await daemon.deliver(rest.splice(0, AHEAD), true);
  };
}

/** A repository that no generated day has. */
const FILLED = 'filled';

function isFilled(item: string): boolean {
  return item.startsWith(`${FILLED}/`);
}
