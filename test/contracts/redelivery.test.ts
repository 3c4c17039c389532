import { describe, expect, it } from 'vitest';
import type { Connection, Redelivery } from '../../src/connectors/connector.ts';
import { github } from '../../src/connectors/github/index.ts';
import { gitlab } from '../../src/connectors/gitlab/index.ts';
import type { HttpClient, HttpRequest } from '../../src/platform/http/http-client.ts';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import { createTravellingClock, type TravellingClock } from '../support/fakes/travelling-clock.ts';
import { documentedOnly } from '../support/vendors/vendor-requests/index.ts';

/**
 * Rounds of redelivery beside vendors that send 100 000 deliveries a day: what a round costs there, and what is kept between
 * two of them.
 */

const URL_OF_HOOK = 'https://sync.example.test/webhooks/main/busy';
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const PER_DAY = 100_000;
const EVERY = DAY / PER_DAY;
const { signal } = new AbortController();

/** Sent so long after the beginning; failed or not. */
interface Attempt {
  readonly number: number;
  readonly delivery: string;
  readonly at: number;
  readonly code: number | 'none';
}

/** The deliveries that the vendor has sent, most of which arrived. */
class Sent {
  /** Codes of the deliveries that failed, by their number; and what was sent again. */
  readonly failed = new Map<number, number | 'none'>();
  readonly again: Attempt[] = [];
  readonly #clock: TravellingClock;
  readonly #start: number;

  constructor(clock: TravellingClock, age: number) {
    this.#clock = clock;
    this.#start = clock.now() - age;
  }

  count(): number {
    return Math.floor((this.#clock.now() - this.#start) / EVERY);
  }

  /** The number of the delivery that was sent so long ago. */
  numberAt(ago: number): number {
    return this.count() - Math.ceil(ago / EVERY);
  }

  /** Sends it once more, with this outcome. */
  resend(delivery: string, code: number | 'none'): void {
    this.again.push({ number: 50_000_000 + this.again.length, delivery, at: this.#clock.now(), code });
  }

  /** The newest first; `from` and `size` in the list of those that are wanted. */
  page(wanted: (code: number | 'none') => boolean, from: number, size: number): Attempt[] {
    const first = wanted(202) ? this.#all() : this.#failures();
    return [...takeFrom(first, wanted, from, size)];
  }

  *#all(): Generator<Attempt> {
    yield* this.again.toReversed();
    for (let number = this.count(); number > 0; number--) yield this.#attempt(number);
  }

  *#failures(): Generator<Attempt> {
    yield* this.again.toReversed();
    for (const number of [...this.failed.keys()].sort((a, b) => b - a))
      if (number <= this.count()) yield this.#attempt(number);
  }

  #attempt(number: number): Attempt {
    const at = this.#start + number * EVERY;
    return { number, delivery: `d-${number}`, at, code: this.failed.get(number) ?? 202 };
  }
}

function* takeFrom(all: Iterable<Attempt>, wanted: (code: number | 'none') => boolean, from: number, size: number) {
  let seen = 0;
  for (const each of all) {
    if (!wanted(each.code)) continue;
    if (seen++ < from) continue;
    if (seen > from + size) return;
    yield each;
  }
}

interface Busy {
  readonly clock: TravellingClock;
  readonly sent: Sent;
  readonly requests: string[];
  /** The result of a requested redelivery. */
  outcome: number | 'none';
  /** Whether the vendor's filter works. */
  hasFilter: boolean;
  /** A quarter of an hour later. */
  round(): Promise<Redelivery & { readonly requests: number; readonly resent: number }>;
}

type Answer = (
  request: HttpRequest,
  busy: Busy,
) => { status?: number; headers?: Record<string, string>; body: unknown };

function busyWith(answer: Answer, connect: (http: HttpClient, clock: TravellingClock) => Connection): Busy {
  const clock = createTravellingClock();
  const requests: string[] = [];
  let cursor: string | undefined;
  const busy: Busy = {
    ...{ clock, requests, outcome: 202, hasFilter: true, sent: new Sent(clock, 5 * DAY) },
    async round() {
      await clock.advance(15 * MINUTE);
      const before = requests.length;
      const told = await (connection.redeliver as Required<Connection>['redeliver'])(URL_OF_HOOK, cursor, signal);
      ({ cursor } = told);
      const made = requests.slice(before);
      const resent = made.filter((each) => each.startsWith('POST')).length;
      return { ...told, requests: made.length - resent, resent };
    },
  };
  const http: HttpClient = {
    async request(request) {
      requests.push(`${request.method} ${request.url}`);
      const { status = 200, headers = {}, body } = answer(request, busy);
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      return { status, headers, body: Buffer.from(text) };
    },
    close: async () => undefined,
  };
  const connection = connect(documentedOnly(http), clock);
  return busy;
}

/** Beyond what a number holds exactly, as GitHub's are. */
const idOf = (number: number) => String(3_804_004_623_000_000_000n + BigInt(number));

function githubAnswer({ method, url }: HttpRequest, busy: Busy): ReturnType<Answer> {
  const { pathname, searchParams } = new URL(url);
  if (pathname === '/repos/acme/api/hooks')
    return { body: [{ id: 31, active: true, events: ['*'], config: { url: URL_OF_HOOK } }] };
  if (method === 'POST') {
    const number = Number(BigInt(pathname.split('/').at(-2) ?? '') - 3_804_004_623_000_000_000n);
    const delivery = busy.sent.again.find((each) => each.number === number)?.delivery ?? `d-${number}`;
    busy.sent.resend(delivery, busy.outcome);
    return { status: 202, body: {} };
  }
  const isFiltered = busy.hasFilter && searchParams.get('status') === 'failure';
  const from = Number(searchParams.get('cursor')?.slice(3) ?? 0);
  const isWanted = (code: number | 'none') => !isFiltered || (typeof code === 'number' && code >= 400);
  const found = busy.sent.page(isWanted, from, 100);
  const next = new URLSearchParams(searchParams);
  next.set('cursor', `v1_${from + 100}`);
  const elements = found.map(({ number, delivery, at, code }) => {
    const isTaken = typeof code === 'number' && code < 300;
    const fields = { guid: delivery, delivered_at: new Date(at).toISOString(), redelivery: number >= 50_000_000 };
    const status = { status: isTaken ? 'Accepted' : 'failed', status_code: code === 'none' ? 0 : code };
    return `{"id":${idOf(number)},${JSON.stringify({ ...fields, ...status, event: 'pull_request' }).slice(1)}`;
  });
  const link = `<https://api.github.com${pathname}?${next.toString()}>; rel="next"`;
  return { body: `[${elements.join(',')}]`, headers: found.length === 100 ? { link } : {} };
}

/** Ten kilobytes, as a merge request is. */
const SENT_BODY = { object_kind: 'merge_request', text: 'x'.repeat(10_000) };

function gitlabAnswer({ method, url }: HttpRequest, busy: Busy): ReturnType<Answer> {
  const { pathname, searchParams } = new URL(url);
  if (pathname.endsWith('/hooks')) return { body: [{ id: 31, url: URL_OF_HOOK }], headers: { 'x-next-page': '' } };
  if (method === 'POST') {
    const number = Number(pathname.split('/').at(-2));
    const delivery = busy.sent.again.find((each) => each.number === number)?.delivery ?? `d-${number}`;
    busy.sent.resend(delivery, busy.outcome);
    return { status: 201, body: { response_status: 200 } };
  }
  const ranges: Readonly<Record<string, readonly [number, number]>> = {
    client_failure: [400, 499],
    server_failure: [500, 599],
  };
  const range = ranges[searchParams.get('status') ?? ''];
  const page = Number(searchParams.get('page') ?? 1);
  const isWanted = (code: number | 'none') =>
    !range || (typeof code === 'number' && code >= range[0] && code <= range[1]);
  const found = busy.sent.page(isWanted, (page - 1) * 20, 20);
  const body = found.map(({ number, delivery, code }) => ({
    id: number,
    request_headers: { 'Idempotency-Key': delivery },
    request_data: SENT_BODY,
    response_status: code === 'none' ? 'internal error' : String(code),
  }));
  return { body, headers: { 'x-next-page': found.length === 20 ? String(page + 1) : '' } };
}

const VENDORS = {
  github: () =>
    busyWith(githubAnswer, (http, clock) =>
      github.connect(github.options.parse({ token: 'ghp_x', repositories: ['acme/api'] }), {
        ...{ http, clock, logger: silentLogger },
      }),
    ),
  gitlab: () =>
    busyWith(gitlabAnswer, (http, clock) =>
      gitlab.connect(gitlab.options.parse({ token: 'glpat-x', projects: ['acme/web'] }), {
        ...{ http, clock, logger: silentLogger },
      }),
    ),
};

describe.each(Object.entries(VENDORS))('%s, at 100 000 deliveries a day', (_id, open) => {
  it('costs three requests a round where nothing failed, and keeps next to nothing', async () => {
    const busy = open();
    await busy.round();
    for (let round = 0; round < 96; round++) {
      const { requests, requested, cursor, failure } = await busy.round();
      expect({ requested, failure }).toEqual({ requested: 0, failure: undefined });
      // Which hooks there are is looked at once an hour.
      expect(requests).toBeLessThanOrEqual(round % 4 === 3 ? 4 : 3);
      expect(cursor.length).toBeLessThan(200);
    }
    expect(busy.requests.length).toBeLessThanOrEqual(97 * 3 + 25);
  });

  it('asks once for each of those that failed, wherever they stand in the list', async () => {
    const busy = open();
    await busy.round();
    await busy.clock.advance(14 * MINUTE);
    const numbers = [13, 9, 4].map((minutes) => busy.sent.numberAt(minutes * MINUTE));
    for (const [index, number] of numbers.entries()) busy.sent.failed.set(number, [503, 404, 502][index] as number);
    expect(await busy.round()).toMatchObject({ requested: 3, resent: 3 });
    const outcomes = busy.sent.again.map(({ delivery }) => delivery).toSorted();
    expect(outcomes).toEqual(numbers.map((number) => `d-${number}`).toSorted());
    for (let round = 0; round < 5; round++) expect(await busy.round()).toMatchObject({ requested: 0 });
  });

  it('finds what got no answer at all as long as it goes on', async () => {
    const busy = open();
    await busy.round();
    // One in ten, until the next round.
    const last = busy.sent.count() + Math.floor((15 * MINUTE) / EVERY);
    for (let at = 0; at < 30; at++) busy.sent.failed.set(last - 10 * at, 'none');
    const requested: number[] = [];
    for (let round = 0; round < 8; round++) requested.push((await busy.round()).requested);
    expect(requested.reduce((sum, each) => sum + each, 0)).toBe(30);
  });
});

it('a GitHub that knows no filter is read as far as there may be pages, and says so', async () => {
  const busy = VENDORS.github();
  busy.hasFilter = false;
  await busy.round();
  // Five minutes before the next round.
  busy.sent.failed.set(busy.sent.count() + Math.floor((10 * MINUTE) / EVERY), 503);
  const told = await busy.round();
  expect(told).toMatchObject({ requested: 1, cut: expect.stringContaining('does not filter') });
  expect(told.requests).toBeLessThanOrEqual(12);
});
