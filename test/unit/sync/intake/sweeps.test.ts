import { expect, test } from 'vitest';
import type { Connection, Connector } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import type { Store } from '../../../../src/store/database.ts';
import { dueFetches } from '../../../../src/store/wanted-fetches.ts';
import { createPauses } from '../../../../src/sync/intake/pauses.ts';
import { sweepJobs } from '../../../../src/sync/intake/sweeps.ts';
import { startJobs } from '../../../support/clocks/timetable.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { createForge, forgeItem } from '../../../support/fakes/forge.ts';
import { remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { activeWith, openTestStore } from '../../../support/harness/intake.ts';

type SweepContext = Parameters<typeof sweepJobs>[0];

/** Twenty times the number of fetches that are requested at once. */
const COUNT = 4_000;
const HOUR = 3_600_000;

/** Opens a store with `COUNT` pull requests of a repository whose list is empty. */
async function filledStore() {
  const commits: number[] = [];
  let statements = 0;
  const store = await openTestStore({
    onStatement(sql) {
      statements = sql.startsWith('begin') ? 0 : statements + 1;
      if (sql.startsWith('commit')) commits.push(statements);
    },
  });
  await store.commit(async (transaction) => {
    for (let from = 0; from < COUNT; from += 500) {
      const rows = Array.from({ length: 500 }, (_, index) => {
        const item = forgeItem('app', { number: from + index, title: '', state: 'merged', updatedAt: 1 });
        const { key, kind, connector } = item;
        const stamps = { provider_time: 1, hash: '', finished: 1, gone: 0, seen_at: 1 } as const;
        return { key, kind, connector, connection: 'forge', fields: JSON.stringify({ item, older: {} }), ...stamps };
      });
      await transaction.insertInto('items').values(rows).execute();
    }
  });
  commits.length = 0;
  return { store, commits };
}

/** Returns the sweep job of one connection. */
function sweepOf(
  deps: Pick<SweepContext, 'store' | 'clock'> & Partial<SweepContext>,
  connector: Connector<unknown>,
  connection = connector.connect({}, {} as never),
) {
  return sweepJobs({
    random: systemRandom(),
    logger: silentLogger,
    meter: silentMeter,
    pauses: createPauses(deps.clock),
    fetches: { notify: () => undefined },
    ...deps,
    connections: [activeWith({ name: 'forge', connector, connection, sweep: { everyMs: HOUR } })],
  });
}

test('requests few fetches at a time if many items are missing', async () => {
  const { store, commits } = await filledStore();
  const clock = createTravellingClock();
  const { connector } = createForge({ app: [] });
  const most: number[] = [];
  const fetchAll = async () => {
    most.push((await dueFetches(store.query, 'forge', clock.now(), 0, COUNT)).length);
    await store.query.deleteFrom('fetches').execute();
  };
  // Simulates that each is fetched some time later.
  const fetches = { notify: () => void clock.after(1, () => void fetchAll()) };
  const jobs = sweepOf({ store, clock, fetches }, connector);
  const timetable = startJobs(jobs, clock);
  const result = () => store.query.selectFrom('sweeps').select(['listed', 'asked']).executeTakeFirst();
  while ((await result()) === undefined) await clock.toNextTimer();
  await timetable.stop();
  expect(await result()).toEqual({ listed: 0, asked: COUNT });
  expect(Math.max(...most)).toBeLessThanOrEqual(200);
  // One commit must not request many, because everything else in the process waits for it.
  expect(Math.max(...commits)).toBeLessThanOrEqual(12);
});

test('records no failure after the loss of the workspace', async () => {
  expect(
    await remainsOfLost(async (store) => {
      const { connector } = createForge({ app: [] });
      const [job] = sweepOf({ store, clock: createTravellingClock() }, connector);
      return async () => job?.run(new AbortController().signal);
    }),
  ).toEqual([]);
});

test('retries a vendor that does not answer a few times, with growing pauses', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const requested: number[] = [];
  const { connector } = createForge({ app: [] });
  const connection: Connection = {
    ...connector.connect({}, {} as never),
    async units() {
      requested.push(clock.monotonic());
      throw new SyncError('unreachable', 'nobody answers');
    },
  };
  // Without jitter: each pause has its full length.
  const random = { ...systemRandom(), float: () => 1 };
  const [job] = sweepOf({ store, clock, random }, connector, connection);
  let isOver = false;
  const run = job?.run(new AbortController().signal).then(() => {
    isOver = true;
  });
  while (!isOver && (await clock.toNextTimer()));
  await run;
  const pauses = requested.slice(1).map((at, index) => Math.round(at - (requested[index] as number)));
  expect(pauses).toHaveLength(5);
  expect(pauses[0]).toBeGreaterThanOrEqual(5_000);
  expect(pauses).toEqual(pauses.toSorted((one, other) => one - other));
});

/** Sweeps three units once, each listed by `sweep`. @returns the rows of the sweeps */
async function sweepUnits(sweep: NonNullable<Connection['sweep']>) {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const { connector } = createForge({ app: [] });
  const units = async () => ['a', 'b', 'c'];
  const [job] = sweepOf({ store, clock }, connector, { ...connector.connect({}, {} as never), units, sweep });
  let isOver = false;
  const run = job?.run(new AbortController().signal).then(() => {
    isOver = true;
  });
  while (!isOver) await clock.toNextTimer();
  await run;
  const rows = await store.query.selectFrom('sweeps').select(['unit', 'error', 'listed']).orderBy('unit').execute();
  return { rows, clock };
}

test.each([
  ['forbidden', ['a', 'b', 'c']],
  ['feature_off', ['a', 'b', 'c']],
  ['unauthorized', ['a']],
] as const)('a unit that fails with %s leaves %j to be swept', async (code, expected) => {
  const swept: string[] = [];
  const { rows } = await sweepUnits(async (unit) => {
    swept.push(unit);
    if (unit === 'a') throw new SyncError(code, 'no');
    return { keys: [], containers: [] };
  });
  expect(swept).toEqual(expected);
  expect(rows[0]).toMatchObject({ unit: 'a', error: code === 'feature_off' ? null : `${code}: no` });
});

test('fails on a list whose pages form a circle, and sweeps the other units', async () => {
  let pages = 0;
  const { rows } = await sweepUnits(async (unit) =>
    unit === 'b' ? { keys: [], containers: [], next: `${pages++ % 3}` } : { keys: [], containers: [] },
  );
  expect(pages).toBeLessThanOrEqual(11);
  expect(rows.map(({ error }) => error?.split(':')[0])).toEqual([undefined, 'list_endless', undefined]);
});

test('stops at once during a rate limit', async () => {
  const clock = createTravellingClock();
  const { connector } = createForge({ app: [] });
  const stopping = new AbortController();
  let requested = 0;
  const left = () => {
    requested++;
    if (requested > 9) throw new Error('the pause is read again and again without a wait');
    return HOUR;
  };
  const pauses = { ...createPauses(clock), left };
  const [job] = sweepOf({ store: await openTestStore(), clock, pauses }, connector);
  const run = job?.run(stopping.signal);
  await clock.advance(1_000);
  expect(requested).toBe(1);
  stopping.abort();
  await run;
  expect(requested).toBe(1);
});

/** Returns a sweep of a repository that lists `listed`, over a store with the items `stored`, by number. */
async function sweepOver(store: Store, stored: Readonly<Record<number, 'there' | 'gone'>>, listed: readonly number[]) {
  const clock = createTravellingClock();
  const items = Object.keys(stored).map((number) => forgeItem('app', { ...ANY, number: Number(number) }));
  for (const item of items) {
    const { key, kind, connector } = item;
    const gone = stored[Number(item.identifier)] === 'gone' ? 1 : 0;
    const stamps = { provider_time: 1, hash: '', finished: 0, gone, seen_at: 1 } as const;
    const fields = JSON.stringify({ item, older: {} });
    await store.query
      .insertInto('items')
      .values({ key, kind, connector, connection: 'forge', fields, ...stamps })
      .execute();
  }
  const { connector } = createForge({ app: listed.map((number) => ({ ...ANY, number })) });
  const notifications: number[] = [];
  const fetches = { notify: () => void notifications.push(clock.elapsed()) };
  const [job] = sweepOf({ store, clock, fetches }, connector);
  const run = async () => {
    let isOver = false;
    const running = Promise.resolve(job?.run(new AbortController().signal)).finally(() => {
      isOver = true;
    });
    await clock.until(() => isOver);
    return running;
  };
  const requested = async () => {
    const rows = await store.query.selectFrom('fetches').select('reference').orderBy('reference').execute();
    return rows.map(({ reference }) => (JSON.parse(reference) as { key: string }).key);
  };
  return { run, requested, notifications, keyOf: (number: number) => forgeItem('app', { ...ANY, number }).key };
}

const ANY = { number: 1, title: '', state: 'open', updatedAt: 1 } as const;

test('fetches stored items that are not listed and gone items that are listed, and no others', async () => {
  const store = await openTestStore();
  const { run, requested, notifications, keyOf } = await sweepOver(
    store,
    { 1: 'there', 2: 'there', 3: 'gone', 4: 'gone' },
    [1, 3, 5],
  );
  await run();
  expect(await requested()).toEqual([2, 3].map(keyOf));
  expect(notifications).toHaveLength(1);
  expect(await store.query.selectFrom('sweeps').select(['listed', 'asked']).execute()).toEqual([
    { listed: 3, asked: 2 },
  ]);
});

test('notifies nothing if nothing differs', async () => {
  const { run, requested, notifications } = await sweepOver(await openTestStore(), { 1: 'there', 4: 'gone' }, [1]);
  await run();
  expect([await requested(), notifications]).toEqual([[], []]);
});

test('completes and leaves no unhandled rejection, whichever statement fails', async () => {
  const wrong = await wrongWhereStatementsFail(
    async (store) => (await sweepOver(store, { 2: 'there', 3: 'gone' }, [3])).run,
    { inParts: true, isQuiet: true },
  );
  expect(wrong).toEqual([]);
});

test('requests and records nothing after the loss of the workspace', async () => {
  expect(await remainsOfLost(async (store) => (await sweepOver(store, { 1: 'there', 2: 'there' }, [1])).run)).toEqual(
    [],
  );
  expect(await remainsOfLost(async (store) => (await sweepOver(store, { 1: 'there' }, [1])).run)).toEqual([]);
});
