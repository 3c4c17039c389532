import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Connection } from '../../src/connectors/connector.ts';
import { SyncError } from '../../src/model/errors.ts';
import type { HttpAnswer, HttpClient, HttpRequest } from '../../src/platform/http/http-client.ts';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import { type Exchange, textOf } from '../contracts/connectors/profile.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { VICTIMS, type Victim } from '../support/faults/fuzz/deliveries.ts';
import { HOSTILE_ADDRESSES, HOSTILE_TEXTS } from '../support/faults/fuzz/hostile.ts';
import { type Tree, treeOf } from '../support/faults/fuzz/json-tree.ts';
import { bytesOf, damage, mutated, mutations } from '../support/faults/fuzz/mutations.ts';
import { faultsOf } from '../support/faults/fuzz/sound-items.ts';
import { fuzzed } from '../support/harness/depth.ts';

const { signal } = new AbortController();

const headerValue = fc.oneof(
  fc.constantFrom(...HOSTILE_TEXTS, ...HOSTILE_ADDRESSES),
  fc.constantFrom(
    '-1',
    '0',
    '99999999999999',
    'Thu, 01 Jan 1970 00:00:00 GMT',
    'never',
    '<https://evil.example/>; rel="next"',
  ),
  fc.constantFrom(...HOSTILE_ADDRESSES).map((address) => `<${address}>; rel="next", <x>; rel="last"`),
);
const HEADERS = [
  ...['link', 'etag', 'retry-after', 'date', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'x-next-page', 'x-page'],
  ...['ratelimit-remaining', 'ratelimit-reset', 'content-type', 'x-total', 'x-total-pages', 'x-ms-continuationtoken'],
];
const headers = fc.dictionary(fc.constantFrom(...HEADERS), headerValue, { maxKeys: 2 });
const status = fc.oneof(
  { weight: 12, arbitrary: fc.constant(undefined) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(201, 202, 203, 204, 206, 301, 304, 400, 401, 403, 404, 410, 418, 422, 429, 500, 503),
  },
);
const harmed = fc.record({ at: fc.nat(), changes: mutations, harm: damage, headers, status });
type Harm = typeof harmed extends fc.Arbitrary<infer Value> ? Value : never;

/** Answers as captured, but for one, which is harmed; notes what was asked. */
function vendorOf(
  exchanges: readonly Exchange[],
  { at, changes, harm, headers: more, status: other }: Harm,
  asked: HttpRequest[],
): HttpClient {
  const victim = exchanges[at % exchanges.length] as Exchange;
  return {
    async request(request) {
      asked.push(request);
      const { pathname, searchParams } = new URL(request.url);
      const found = exchanges.filter((each) => each.path === pathname && (each.method ?? 'GET') === request.method);
      const fitting = found
        .filter((each) => fits(each, request, searchParams))
        .toSorted((a, b) => wishesOf(b) - wishesOf(a));
      const exchange = fitting[0] ?? found[0];
      if (!exchange) return { status: 200, headers: more, body: bytesOf(mutated(ANYTHING, changes), harm) };
      const plain = {
        status: exchange.status ?? 200,
        headers: exchange.headers ?? {},
        body: Buffer.from(textOf(exchange)),
      };
      if (exchange !== victim) return plain;
      const body = bytesOf(mutated(treeFrom(textOf(exchange)), changes), harm);
      return { status: other ?? plain.status, headers: { ...plain.headers, ...more }, body } satisfies HttpAnswer;
    },
    close: async () => undefined,
  };
}

/** Where nothing was captured: lists of ids as vendors write them. */
const ANYTHING = treeOf({
  ...{ id: 5, name: 'Website', key: 'ENG', identifier: 'website', count: 3, ids: ['4711'], items: [], next: null },
  ...{ workItems: [{ id: 299 }], issues: [], data: [], projects: [], isLastBatch: true, full_name: 'acme/api' },
  project: { id: 5, identifier: 'website', name: 'Website' },
});

/** The one that wants most is the one that is meant: the first page wants least. */
function wishesOf({ query = {}, sent = {} }: Exchange): number {
  return Object.keys(query).length + Object.keys(sent).length;
}

function treeFrom(body: string | undefined): Tree {
  return treeOf(body === undefined || body === '' ? {} : JSON.parse(body));
}

function fits({ query = {}, sent }: Exchange, { body }: HttpRequest, given: URLSearchParams): boolean {
  const isAsked = Object.entries(query).every(([name, value]) => isDeepStrictEqual(given.getAll(name), [value].flat()));
  const content = sent && (JSON.parse(String(body)) as Record<string, unknown>);
  return isAsked && Object.entries(sent ?? {}).every(([name, value]) => isDeepStrictEqual(content?.[name], value));
}

/** Pages of a walk are few; one that goes on for ever would be a fault of ours. */
const MOST_PAGES = 20;

type Use = (connection: Connection, victim: Victim) => Promise<readonly string[]>;

/** The operations with a vendor, each with the faults in its results. */
const USES: Readonly<Record<string, { readonly answers: (victim: Victim) => readonly Exchange[]; readonly use: Use }>> =
  {
    'a walk': {
      answers: ({ profile: { poll } }) => [...poll.walk, ...(poll.besides ?? [])],
      async use(connection, victim) {
        const { unit, watermark } = victim.profile.poll;
        const faults: string[] = [];
        for (let page: string | undefined, n = 0; n < MOST_PAGES; n++) {
          const got = await connection.poll({ unit, watermark, page, startedAt: '2026-04-01T00:00:00.000Z' }, signal);
          if (got.outcome !== 'page') return faults;
          faults.push(...foundIn(victim, { source: 'poll', ...got }));
          // Where it is ahead of all clocks, intake takes its own time.
          if (got.newest !== undefined && Number.isNaN(Date.parse(got.newest)))
            faults.push(`${got.newest} is no watermark`);
          page = got.next;
          if (page === undefined) break;
        }
        return faults;
      },
    },
    'a backfill': {
      answers: ({ profile: { poll } }) => [...poll.walk, ...(poll.besides ?? [])],
      async use(connection, victim) {
        const got = await connection.history?.({ unit: victim.profile.poll.unit }, signal);
        return got ? foundIn(victim, { source: 'backfill', ...got }) : [];
      },
    },
    'a fetch': {
      answers: ({ profile: { fetch } }) => fetch.found,
      use: (connection, victim) => fetched(connection, victim, victim.profile.fetch.reference),
    },
    'a fetch of what is gone': {
      answers: ({ profile: { fetch } }) => fetch.gone,
      use: (connection, victim) => fetched(connection, victim, victim.profile.fetch.reference),
    },
    'a check': {
      answers: ({ profile: { check } }) => check.good,
      use: async (connection) =>
        (await connection.check(signal)).flatMap(({ message }) => (message === '' ? ['says nothing'] : [])),
    },
    'names and units': {
      answers: ({ profile: { poll, check } }) => [...check.good, ...(poll.besides ?? [])],
      async use(connection, { profile: { poll } }) {
        await connection.units(signal);
        const seen = await connection.identify?.(poll.unit, signal);
        return seen && (seen.id === '' || seen.name === '') ? ['names nothing'] : [];
      },
    },
    'a sweep': {
      answers: ({ profile: { poll } }) => [...poll.walk, ...(poll.besides ?? [])],
      async use(connection, { id, profile: { poll } }) {
        const page = await connection.sweep?.(poll.unit, undefined, signal);
        return (page?.keys ?? []).filter((key) => !key.startsWith(`${id}:`));
      },
    },
  };

async function fetched(connection: Connection, victim: Victim, locator: Readonly<Record<string, string>>) {
  const kind = victim.profile.fetch.kind ?? 'pull_request';
  return foundIn(victim, { source: 'fetch', ...(await connection.fetch({ kind, key: 'k', locator }, signal)) });
}

/** A body that worksync stored is one that it can read. */
function foundIn(
  victim: Victim,
  delivery: { readonly source: 'poll' | 'fetch' | 'backfill'; readonly event: string; readonly body: Buffer },
) {
  try {
    const translation = victim.connector.translate(delivery, victim.options);
    const items = translation.outcome === 'items' ? translation.items : [];
    // Characters that no database stores are replaced when the delivery is processed.
    return items.flatMap((item) => faultsOf(victim, item)).filter((fault) => !fault.startsWith('holds what'));
  } catch (error) {
    return error instanceof SyncError && error.code === 'delivery_malformed' ? [] : [String(error)];
  }
}

/** A complete captured answer. */
const ALWAYS_READ = { 'a walk': true, 'a fetch': true, 'a fetch of what is gone': true };

/** Every failure has a code that somebody can act on. */
function surprisesOf(error: unknown): string[] {
  return error instanceof SyncError && error.code !== 'internal' ? [] : [String((error as Error).stack)];
}

describe.each(VICTIMS)('$id', (victim) => {
  // As the captured answers were asked for: by names, of which none is bound yet.
  const plain = victim.connector.options.parse(victim.profile.options);
  it.each(Object.entries(USES))(
    '%s: any answer is read or refused, and leads nowhere else',
    async (name, { answers, use }) => {
      const exchanges = answers(victim);
      const ended = new Set<string>();
      await fc.assert(
        fc.asyncProperty(harmed, async (harm) => {
          const asked: HttpRequest[] = [];
          const http = vendorOf(exchanges, harm, asked);
          const connection = victim.connector.connect(plain, {
            http,
            clock: createTravellingClock(),
            logger: silentLogger,
          });
          const { faults, ending } = await use(connection, victim).then(
            (found) => ({ faults: found, ending: 'read' }),
            (error: unknown) => ({ faults: surprisesOf(error), ending: 'refused' }),
          );
          ended.add(ending);
          expect(faults).toEqual([]);
          for (const { url } of asked) expect(new URL(url).origin).toBe(victim.profile.origin);
          expect(asked.length).toBeLessThan(150);
          expect([({} as { polluted?: unknown }).polluted, Object.keys(Object.prototype)]).toEqual([undefined, []]);
        }),
        { numRuns: fuzzed(1_500) },
      );
      if (name in ALWAYS_READ) expect(ended).toContain('read');
      if (name in ALWAYS_READ) expect(ended).toContain('refused');
    },
  );
});
