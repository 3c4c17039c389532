import { describe, expect, test } from 'vitest';
import type { Connection, Known } from '../../../../src/connectors/connector.ts';
import { purposeNow } from '../../../../src/connectors/kit/refusal.ts';
import { SyncError } from '../../../../src/model/errors.ts';
import type { PullRequestPhase } from '../../../../src/model/workflow.ts';
import { createWakeSignal, systemRandom } from '../../../../src/platform/lib/clock.ts';
import { chunksOf } from '../../../../src/platform/lib/concurrency.ts';
import type { Job } from '../../../../src/platform/lib/scheduler.ts';
import { silentLogger, silentMeter } from '../../../../src/platform/lib/telemetry.ts';
import { blankEntity, saveEntity } from '../../../../src/store/changes/entities.ts';
import { loadNames, storedUnits } from '../../../../src/store/connections/scope-names.ts';
import type { Store } from '../../../../src/store/workspace-scope.ts';
import { createVerification, reviewJobs } from '../../../../src/sync/intake/item-reads.ts';
import { openNameBindings } from '../../../../src/sync/intake/name-bindings.ts';
import { sweepJobs } from '../../../../src/sync/intake/sweeps.ts';
import { needsReviews } from '../../../../src/sync/reconcile/workflow/workflow-rules.ts';
import { createForge, forgeItem } from '../../../support/fakes/forge.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';
import { itemRow } from '../../../support/rows/items.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A stored pull request of the repository `app`, which changed at 5. */
interface Stored {
  readonly number: number;
  readonly repo?: string;
  readonly state?: 'open' | 'merged';
  readonly unverified?: 0 | 1;
  readonly gone?: 0 | 1;
  readonly seen_at?: number;
  readonly link?: 'none' | 'gone';
  readonly reviewsReadAt?: number;
  readonly commitsSha?: string;
  readonly connection?: string;
}

const keyOf = (number: number) => itemOf({ number }).key;
const itemOf = ({ number, repo = 'app', state = 'open' }: Stored) =>
  forgeItem(repo, { number, title: '', state, updatedAt: 5 });

async function storeItems(store: Store, items: readonly Stored[]): Promise<void> {
  const rows = items.map((stored) => {
    const { unverified = 0, gone = 0, seen_at = 1, connection = 'forge', reviewsReadAt, commitsSha } = stored;
    const item = itemOf(stored);
    const { key, connector, kind } = item;
    const fields = JSON.stringify({ item: { ...item, reviewsReadAt, commitsSha }, older: {} });
    const row = { connection, connector, kind, finished: item.state === 'open' ? 0 : 1 } as const;
    return itemRow(key, { ...row, unverified, gone, seen_at, fields });
  });
  await store.commit(async (transaction) => {
    for (const some of chunksOf(rows, 500))
      await transaction
        .insertInto('items')
        .values([...some])
        .execute();
    for (const [index, { number, link }] of items.entries()) {
      const entity = { task_id: 't1', item_key: rows[index]?.key, hand: link === 'gone' ? link : null } as const;
      if (link !== 'none') await saveEntity(transaction, blankEntity(`link:${number}`, 'link', entity));
    }
  });
}

/** Opens a store with these items. @param fetch throws the vendor's error */
async function bench(
  items: readonly Stored[],
  fetch: (number: string, time: number) => void | Promise<void> = () => undefined,
) {
  const store = await openTestStore();
  const clock = createTravellingClock();
  await storeItems(store, items);
  const { connector } = createForge({ app: [] });
  const requested: { number: string; time: number; known: Known | undefined; purpose: string | undefined }[] = [];
  const connection = {
    ...connector.connect({}, {} as never),
    async fetch({ key }: { readonly key: string }, _: AbortSignal, known?: Known) {
      const number = key.split(':').at(-1) ?? '';
      requested.push({ number, time: clock.elapsed(), known, purpose: purposeNow() });
      await fetch(number, clock.elapsed());
      return { event: 'item', body: Buffer.from(number) };
    },
  };
  let notifications = 0;
  const inbox = { ...createWakeSignal(), notify: () => void notifications++ };
  const connections = [{ ...activeWith({ name: 'forge', connector, connection }), readsReviews: true }];
  const context = workspaceContext({ store, clock, inbox, connections });
  return {
    ...{ store, clock, requested, context },
    numbers: () => requested.map(({ number }) => number),
    notifications: () => notifications,
    /** The shortest time between two requests. */
    interval: () => Math.min(...requested.slice(1).map(({ time }, index) => time - (requested[index]?.time ?? 0))),
  };
}

describe('the verification of items', () => {
  async function verifying(items: readonly Stored[], fetch?: (number: string, time: number) => void) {
    const all = await bench(
      items.map((item) => ({ unverified: 1, ...item })),
      fetch,
    );
    const verification = createVerification(all.context);
    verification.start();
    verification.start();
    return { ...all, verification };
  }

  test('fetches open items first, one every two seconds, for the purpose `restore`', async () => {
    const { clock, requested, numbers, verification, store, interval, notifications } = await verifying([
      { number: 1, state: 'merged', commitsSha: 'a1' },
      { number: 2, state: 'merged' },
      { number: 3 },
      { number: 4 },
      { number: 5, unverified: 0 },
    ]);
    await clock.advance(MINUTE);
    expect(numbers()).toEqual(['3', '4', '1', '2']);
    expect(requested.map(({ known }) => known?.commitsSha)).toEqual([undefined, undefined, 'a1', undefined]);
    expect(requested.every(({ purpose }) => purpose === 'restore')).toBe(true);
    expect([interval(), notifications()]).toEqual([2_000, 4]);
    expect(await inboxOf(store)).toMatchObject(
      Array.from({ length: 4 }, () => ({ source: 'fetch', connection: 'forge' })),
    );
    await verification.stop();
    expect(clock.pending).toBe(0);
  });

  const failing = (failed: string, code: 'forbidden' | 'server_failed') => (number: string) => {
    if (number === failed) throw new SyncError(code, 'no');
  };
  const limited = (number: string, time: number) => {
    if (number === '3' && time < 10 * MINUTE) throw new SyncError('rate_limited', 'wait', { retryAfter: 10 * MINUTE });
  };

  test.each<[string, (number: string, time: number) => void, before: string[], after: string[]]>([
    ['skips for good an item that the vendor refuses', failing('3', 'forbidden'), ['3', '4'], ['3', '4']],
    ['waits during a rate limit', limited, ['3'], ['3', '3', '4']],
    ['continues after six failures of one item', failing('3', 'server_failed'), ['3'], [...Array(6).fill('3'), '4']],
  ])('%s', async (_name, fetch, before, after) => {
    const { clock, numbers, verification } = await verifying([{ number: 3 }, { number: 4 }], fetch);
    await clock.advance(5_000);
    expect([...new Set(numbers())]).toEqual(before);
    await clock.advance(HOUR);
    expect(numbers()).toEqual(after);
    await clock.advance(3 * HOUR);
    expect(numbers().length > after.length).toBe(after.length > 6);
    expect(numbers().filter((number) => number === '4')).toHaveLength(1);
    await verification.stop();
  });

  test('skips an item that a delivery has confirmed meanwhile, and ends when no item is unverified', async () => {
    const { clock, numbers, verification, store } = await verifying([{ number: 3 }, { number: 4 }, { number: 5 }]);
    await clock.until(() => numbers().length === 1);
    await store.query.updateTable('items').set({ unverified: 0 }).where('key', '!=', keyOf(5)).execute();
    await clock.advance(MINUTE);
    expect(numbers()).toEqual(['3', '5']);
    await store.query.updateTable('items').set({ unverified: 0 }).execute();
    await clock.advance(2 * HOUR);
    expect([numbers(), clock.pending]).toEqual([['3', '5'], 0]);
    await verification.stop();
  });
});

describe('reads of reviews', () => {
  test('read linked open pull requests that changed since the last read, once an hour', async () => {
    const { store, clock, requested, context, numbers, interval } = await bench(
      [
        { number: 1 },
        { number: 2, reviewsReadAt: 4 },
        { number: 3, reviewsReadAt: 5 },
        { number: 4, link: 'none' },
        { number: 5, link: 'gone' },
        { number: 6, state: 'merged' },
        { number: 7, connection: 'other' },
        // More than one batch.
        ...Array.from({ length: 100 }, (_, index) => ({ number: 8_000 + index, link: 'none' as const })),
        { number: 9_000 },
      ],
      (number) => {
        if (number === '1') throw new SyncError('forbidden', 'no');
      },
    );
    const jobs = reviewJobs(context);
    expect(jobs.map(({ name, when }) => [name, when])).toEqual([['reviews.forge', { everyMs: HOUR }]]);
    const run = jobs[0]?.run(new AbortController().signal);
    await clock.advance(MINUTE);
    await run;
    expect([numbers(), interval()]).toEqual([['1', '2', '9000'], 2_000]);
    expect(requested).toMatchObject(requested.map(() => ({ known: { wantsReviews: true }, purpose: 'poll' })));
    expect((await inboxOf(store)).map(({ source, body }) => [source, body])).toEqual([
      ['fetch', '2'],
      ['fetch', '9000'],
    ]);
  });

  test('exist only for connections whose rules need them', async () => {
    const { context } = await bench([]);
    const connections = context.connections.map((active) => ({ ...active, readsReviews: false }));
    expect(reviewJobs({ ...context, connections })).toEqual([]);
  });

  const about = (...pullRequest: PullRequestPhase[]) => [{ when: { pullRequest }, set: {} }];

  test.each<[boolean, string, Parameters<typeof needsReviews>[0]]>([
    [true, 'the preset', { preset: 'standard', rules: [] }],
    [true, 'a rule about reviews', { rules: about('merged', 'approved') }],
    [false, 'a rule about other phases', { rules: about('merged', 'draft', 'open') }],
  ])('are needed: %s, by %s', (expected, _what, workflow) => {
    expect(needsReviews(workflow)).toBe(expected);
  });
});

describe('a sweep', () => {
  type SweepContext = Parameters<typeof sweepJobs>[0];
  const { connector } = createForge({ app: [] });
  const { signal } = new AbortController();

  /** Returns the job that sweeps the connection `forge`. */
  function sweepOf(
    deps: Pick<SweepContext, 'store' | 'clock'> & Partial<SweepContext>,
    parts: Partial<Connection> = {},
    fetches: { notify(): void } = { notify() {} },
  ): Job {
    const connection = { ...connector.connect({}, {} as never), ...parts };
    const connections = [activeWith({ name: 'forge', connector, connection, sweep: { everyMs: HOUR } })];
    const context = workspaceContext({ ...deps, connections, fetches: { ...createWakeSignal(), ...fetches } });
    return sweepJobs(context)[0] as Job;
  }

  async function runToEnd(job: Job, clock: TravellingClock): Promise<void> {
    let isOver = false;
    const running = Promise.resolve(job.run(signal)).finally(() => {
      isOver = true;
    });
    while (!isOver) await clock.toNextTimer();
    await running;
  }

  const rowsOf = ({ query }: Store) =>
    query.selectFrom('sweeps').select(['unit', 'error', 'listed', 'asked']).orderBy('unit').execute();

  /** Returns the keys of the items whose fetch is requested. */
  async function fetchesOf({ query }: Store): Promise<string[]> {
    const rows = await query.selectFrom('fetches').select('reference').orderBy('reference').execute();
    return rows.map(({ reference }) => (JSON.parse(reference) as { key: string }).key);
  }

  /** Returns a sweep of these items, of which the list has those of the numbers `listed`. */
  async function sweepOver(store: Store, items: readonly Stored[], listed: readonly number[]) {
    const clock = createTravellingClock();
    await storeItems(store, items);
    const notifications: number[] = [];
    const fetches = { notify: () => void notifications.push(clock.elapsed()) };
    const sweep = async () => ({ keys: listed.map(keyOf), containers: ['app'] });
    const job = sweepOf({ store, clock }, { sweep }, fetches);
    return { run: () => runToEnd(job, clock), requested: () => fetchesOf(store), notifications };
  }

  test('requests stored items that are not listed and gone items that are listed, and no others', async () => {
    const store = await openTestStore();
    const { run, requested, notifications } = await sweepOver(
      store,
      [
        ...[{ number: 1 }, { number: 2 }, { number: 3, gone: 1 }, { number: 4, gone: 1 }].map((item) => item as Stored),
        { number: 6, repo: 'not-listed' },
        { number: 7, connection: 'other' },
        { number: 8, seen_at: Number.MAX_SAFE_INTEGER },
      ],
      [1, 3, 5],
    );
    await run();
    expect(await requested()).toEqual([2, 3].map(keyOf));
    expect(notifications).toHaveLength(1);
    expect(await rowsOf(store)).toMatchObject([{ listed: 3, asked: 2 }]);
  });

  test('repeats a request after temporary failures a few times, and clears the failure when it succeeds', async () => {
    const clock = createTravellingClock();
    const times: number[] = [];
    const units = async () => {
      if (times.push(clock.elapsed()) <= 6) throw new SyncError('unreachable', 'nobody answers');
      return [];
    };
    const store = await openTestStore();
    // Without jitter: each pause has its full length.
    const job = sweepOf({ store, clock, random: { ...systemRandom(), float: () => 1 } }, { units });
    await runToEnd(job, clock);
    expect(times).toHaveLength(6);
    expect(times[1]).toBe(10_000);
    expect(await rowsOf(store)).toMatchObject([{ unit: '*', error: 'unreachable: nobody answers' }]);
    await runToEnd(job, clock);
    expect(await rowsOf(store)).toEqual([]);
  });

  test.each([
    ['forbidden', 1, ['a', 'b', 'c'], 'forbidden: no'],
    ['feature_off', 1, ['a', 'b', 'c'], null],
    ['unauthorized', 1, ['a'], 'unauthorized: no'],
    ['rate_limited', 9, [...Array(10).fill('a'), 'b', 'c'], null],
    ['server_failed', 5, [...Array(6).fill('a'), 'b', 'c'], null],
  ] as const)('reads, after %s of the first unit %i times, %j', async (code, times, expected, error) => {
    const store = await openTestStore();
    const clock = createTravellingClock();
    const swept: string[] = [];
    const sweep = async (unit: string) => {
      swept.push(unit);
      if (unit === 'a' && swept.length <= times) throw new SyncError(code, 'no');
      return { keys: [], containers: [] };
    };
    await runToEnd(sweepOf({ store, clock }, { units: async () => ['a', 'b', 'c'], sweep }), clock);
    expect(swept).toEqual(expected);
    expect((await rowsOf(store))[0]).toMatchObject({ unit: 'a', error });
  });

  test.each([
    ['requests', [{ number: 1 }, { number: 2 }]],
    ['records', [{ number: 1 }]],
  ])('%s nothing after the loss of the workspace', async (_name, items) => {
    expect(await remainsOfLost(async (store) => (await sweepOver(store, items, [1])).run)).toEqual([]);
  });

  test('requests and records nothing if the workspace is lost while the list is read', async () => {
    const store = await openTestStore();
    await storeItems(store, [{ number: 1 }]);
    let isLost = false;
    const commit: Store['commit'] = (work) =>
      isLost ? Promise.reject(new SyncError('lease_lost', 'it was taken over')) : store.commit(work);
    const sweep = async () => {
      isLost = true;
      return { keys: [], containers: ['app'] };
    };
    const clock = createTravellingClock();
    await runToEnd(sweepOf({ store: { ...store, commit }, clock }, { sweep }), clock).catch(() => undefined);
    expect([await fetchesOf(store), await rowsOf(store)]).toEqual([[], []]);
  });

  test('requests and records nothing once it is stopped', async () => {
    const store = await openTestStore();
    await storeItems(store, [{ number: 1 }]);
    const stopping = new AbortController();
    const swept: string[] = [];
    const sweep = async (unit: string) => {
      swept.push(unit);
      stopping.abort();
      return { keys: [], containers: ['app'] };
    };
    const clock = createTravellingClock();
    await sweepOf({ store, clock }, { units: async () => ['a', 'b'], sweep }).run(stopping.signal);
    expect([swept, await fetchesOf(store), await rowsOf(store), clock.pending]).toEqual([['a'], [], [], 0]);
  });

  test('reads the pages of a list one after the other, and takes all of them together', async () => {
    const store = await openTestStore();
    const clock = createTravellingClock();
    await storeItems(store, [{ number: 1 }, { number: 2 }, { number: 3, repo: 'other' }, { number: 4 }]);
    const pages: (string | undefined)[] = [];
    const sweep = async (_unit: string, page: string | undefined) => {
      pages.push(page);
      if (page === undefined) return { keys: [keyOf(1)], containers: ['app'], next: '2' };
      return { keys: [keyOf(2)], containers: ['other'] };
    };
    await runToEnd(sweepOf({ store, clock }, { sweep }), clock);
    expect(pages).toEqual([undefined, '2']);
    expect(await fetchesOf(store)).toEqual([itemOf({ number: 3, repo: 'other' }).key, keyOf(4)].toSorted());
    expect(await rowsOf(store)).toMatchObject([{ listed: 2, asked: 2 }]);
  });
});

test('the verification stops when the fetch in hand has ended', async () => {
  const answer = Promise.withResolvers<void>();
  const items = [3, 4].map((number) => ({ number, unverified: 1 }) as const);
  const { context, clock, numbers, store } = await bench(items, () => answer.promise);
  const verification = createVerification(context);
  verification.start();
  await clock.until(() => numbers().length === 1);
  let isStopped = false;
  const stopped = verification.stop().then(() => {
    isStopped = true;
  });
  await clock.advance(MINUTE);
  expect([isStopped, numbers()]).toEqual([false, ['3']]);
  answer.resolve();
  await stopped;
  expect([(await inboxOf(store)).length, numbers(), clock.pending]).toEqual([1, ['3'], 0]);
});

describe('the bindings of names', () => {
  const { signal } = new AbortController();
  const ENTRIES = ['acme/app', 'acme/web'];

  /** A vendor with these ids of names; an error is thrown, and nothing has another name. */
  function vendorOf(ids: Readonly<Record<string, string | SyncError>>) {
    const requested: string[] = [];
    const identify: NonNullable<Connection['identify']> = async (name) => {
      requested.push(name);
      const id = ids[name] ?? new SyncError('not_found', 'nothing');
      if (id instanceof SyncError) throw id;
      return { id, name };
    };
    return { requested, identify };
  }

  async function openNames() {
    const store = await openTestStore();
    const clock = createTravellingClock();
    const gauges: number[] = [];
    const meter = { ...silentMeter, gauge: (_name: string, value: number) => void gauges.push(value) };
    const deps = { store, clock, random: systemRandom(), logger: silentLogger, meter };
    const bindings = await openNameBindings(deps, { connection: 'github', entries: ENTRIES });
    return { store, bindings, clock, gauges };
  }

  /** Opens bindings of which `acme/app` led to 7 first, and leads to 8 now. */
  async function reboundNames() {
    const all = await openNames();
    await all.bindings.refresh(vendorOf({ 'acme/app': '7', 'acme/web': '1' }), signal);
    await all.clock.advance(25 * HOUR);
    const vendor = vendorOf({ 'acme/app': '8', 'acme/web': '1' });
    await all.bindings.refresh(vendor, signal);
    for (const unit of ['acme/app', 'issues:acme/app', 'acme/web'])
      await all.store.query.insertInto('polls').values({ connection: 'github', unit, watermark: 'w' }).execute();
    await all.bindings.settled();
    return { ...all, vendor };
  }

  const idsOf = async ({ query }: Store) => (await loadNames(query, 'github', ENTRIES)).map(({ id }) => id).toSorted();

  describe('a rebind', () => {
    test('binds a name to the id to which it leads now, and restarts its units; until then the old id stays', async () => {
      const { store, bindings, vendor, gauges } = await reboundNames();
      expect([bindings.idOf('acme/app'), await idsOf(store), gauges.at(-1)]).toEqual(['7', ['1', '7'], 1]);
      const before = bindings.version();
      await bindings.rebind(vendor, signal);
      expect(bindings.version()).toBeGreaterThan(before);
      expect([bindings.idOf('acme/app'), await idsOf(store), gauges.at(-1)]).toEqual(['8', ['1', '8'], 0]);
      expect(await storedUnits(store.query, 'github')).toEqual(['acme/web']);
    });

    test('rejects after the failure of one name, and binds the others', async () => {
      const { store, bindings, clock } = await reboundNames();
      await clock.advance(25 * HOUR);
      await bindings.refresh(vendorOf({ 'acme/app': '8', 'acme/web': '2' }), signal);
      const vendor = vendorOf({ 'acme/app': new SyncError('forbidden', 'no'), 'acme/web': '2' });
      await expect(bindings.rebind(vendor, signal)).rejects.toMatchObject({ code: 'forbidden' });
      expect([await idsOf(store), bindings.idOf('acme/app')]).toEqual([['2', '7'], '7']);
    });

    test('uses the ids of deliveries if the vendor cannot resolve names', async () => {
      const { bindings } = await reboundNames();
      await bindings.refresh({}, signal);
      expect(bindings.idOf('acme/app')).toBe('7');
      expect(await bindings.rebind({}, signal)).toMatchObject([{ entry: 'acme/app', id: '8', called: 'acme/app' }]);
    });
  });

  describe('a refresh', () => {
    test.each([
      ['forbidden', ENTRIES.length, 'resolves'],
      ['unauthorized', 1, 'resolves'],
      ['rate_limited', 1, 'rejects'],
    ] as const)('after %s for a name, requests %i names and %s', async (code, expected, end) => {
      const { bindings } = await openNames();
      const error = new SyncError(code, 'no', { retryAfter: 60_000 });
      const vendor = vendorOf({ 'acme/app': error, 'acme/web': error });
      const refresh = bindings.refresh(vendor, signal);
      if (end === 'resolves') await refresh;
      else await expect(refresh).rejects.toBe(error);
      expect(vendor.requested).toHaveLength(expected);
    });

    test.each<[what: string, isDoubted: boolean, age: number, isRequested: boolean, isRequestedLater: boolean]>([
      ['a day', false, 24 * HOUR, true, false],
      ['just under a quarter of an hour, in doubt, which stays', true, HOUR / 4 - 1, false, true],
      ['a quarter of an hour, in doubt', true, HOUR / 4, true, false],
      ['a quarter of an hour, without doubt', false, HOUR / 4, false, false],
    ])('asks again for a name after %s: %#', async (_what, isDoubted, age, isRequested, isRequestedLater) => {
      const { bindings, clock } = await reboundNames();
      const vendor = vendorOf({ 'acme/app': '7', 'acme/web': '7' });
      const requestsAfter = async (ms: number) => {
        const before = vendor.requested.length;
        clock.jumpWall(ms);
        await bindings.refresh(vendor, signal);
        return vendor.requested.length > before;
      };
      expect(await requestsAfter(25 * HOUR)).toBe(true);
      if (isDoubted) bindings.recheckSoon();
      expect([await requestsAfter(age), await requestsAfter(HOUR / 4)]).toEqual([isRequested, isRequestedLater]);
    });
  });
});

test('the verification reads an item again that could not be stored, because the disk was full', async () => {
  const { context, clock, numbers, store } = await bench([{ number: 3, unverified: 1 }]);
  let failures = 1;
  const commit: Store['commit'] = (work) =>
    failures-- > 0 ? Promise.reject(new SyncError('disk_full', 'full')) : store.commit(work);
  const verification = createVerification({ ...context, store: { ...store, commit } });
  verification.start();
  await clock.advance(2 * MINUTE);
  expect(numbers()).toEqual(['3', '3']);
  expect(await inboxOf(store)).toHaveLength(1);
  await verification.stop();
});

test('the verification stores no item after the loss of the workspace', async () => {
  const { context, clock, numbers, store, notifications } = await bench([{ number: 3, unverified: 1 }]);
  const commit: Store['commit'] = () => Promise.reject(new SyncError('lease_lost', 'it was taken over'));
  const verification = createVerification({ ...context, store: { ...store, commit } });
  verification.start();
  await clock.advance(1_000);
  expect([numbers()[0], await inboxOf(store), notifications()]).toEqual(['3', [], 0]);
  await verification.stop();
});
