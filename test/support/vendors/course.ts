import { isDeepStrictEqual } from 'node:util';
import { onTestFinished } from 'vitest';
import type { Connection, ConnectionDeps, Connector, GitProvider } from '../../../src/connectors/connector.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import type { HttpAnswer, HttpClient, HttpRequest } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { createTravellingClock, type TravellingClock } from '../clocks/travelling-clock.ts';
import { requireDocumented } from './vendor-requests/index.ts';
import { surprises } from './vendor-requests/surprises.ts';

/** An answer; its body is JSON unless it is a text. `isLost`: the request may have arrived, and no answer came. */
export type Reply = Partial<Omit<HttpAnswer, 'body'>> & { readonly body?: unknown; readonly isLost?: boolean };

/**
 * A request, as method and path with its query, and its answer: a status alone, or more. Then the JSON that is sent, and headers
 * of the request, if they matter. A query of `*` is any, and so is a request of `*`.
 */
export type Turn = readonly [
  expected: string,
  reply?: Reply | number,
  sent?: unknown,
  headers?: Readonly<Record<string, unknown>>,
];

interface Course {
  readonly requests: readonly HttpRequest[];
  readonly clock: TravellingClock;
  /** Turns that were not taken. Those that are left fail the test. */
  readonly rest: Turn[];
  readonly http: HttpClient;
}

/**
 * A client over a written course of answers: each request must be the one that is due, and documented. A test that leaves
 * turns, or asks what is not due, fails.
 */
export function playing(origin: string, course: readonly Turn[], clock = createTravellingClock()): Course {
  const requests: HttpRequest[] = [];
  const rest = [...course];
  onTestFinished(() => {
    if (rest.length > 0) throw new Error(`was never asked for: ${rest.map(([expected]) => expected).join(', ')}`);
  });
  const http = {
    async request(request: HttpRequest): Promise<HttpAnswer> {
      requests.push(request);
      requireDocumented(request);
      const turn = rest.shift() ?? ['nothing'];
      const problem = differenceOf(request, origin, turn);
      if (problem !== undefined) {
        surprises.push(problem);
        throw new Error(problem);
      }
      return answerOf(turn[1] ?? {});
    },
    close: async () => {},
  };
  return { requests, rest, clock, http };
}

function differenceOf(request: HttpRequest, origin: string, [expected, , sent, headers]: Turn): string | undefined {
  const [path = '', query] = request.url.replace(origin, '').split(/\?(.*)/s);
  const known = expected.endsWith('?*') ? '?*' : `?${decodeURIComponent(query?.replaceAll('+', ' ') ?? '')}`;
  const asked = `${request.method} ${path}${query === undefined ? '' : known}`;
  if (expected !== '*' && asked !== expected) return `${asked} came instead of ${expected}`;
  if (sent !== undefined && !isDeepStrictEqual(JSON.parse(String(request.body)), JSON.parse(JSON.stringify(sent))))
    return `${String(request.body)} was sent instead of ${JSON.stringify(sent)}`;
  for (const [name, value] of Object.entries(headers ?? {})) {
    const given = request.headers?.[name];
    const isRight = value instanceof RegExp ? value.test(given ?? '') : value === given;
    if (!isRight) return `${asked} came with ${name}: ${given}`;
  }
  return undefined;
}

function answerOf(reply: Reply | number): HttpAnswer {
  const {
    status = 200,
    headers = {},
    body = '',
    isLost = false,
  } = typeof reply === 'number' ? { status: reply } : reply;
  if (isLost) throw new SyncError('outcome_unknown', 'the connection was reset');
  return { status, headers, body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)) };
}

interface ConnectionCourse<Options> extends Course {
  readonly connection: Required<Connection>;
  readonly options: Options;
}

/** A connection over such a course. */
export function courseOf<Options>(
  connector: Connector<Options>,
  given: object,
  origin: string,
  course: readonly Turn[],
): ConnectionCourse<Options> {
  const options = connector.options.parse(given);
  const played = playing(origin, course);
  const connection = connector.connect(options, depsOf(played)) as Required<Connection>;
  return { ...played, options, connection };
}

/** The writes of members over such a course. */
export function gitCourse(connector: Connector<never>, origin: string, course: readonly Turn[]): GitProvider {
  return connector.git!(depsOf(playing(origin, course)));
}

function depsOf({ http, clock }: Course): ConnectionDeps {
  return { http, clock, logger: silentLogger };
}

/** Returns the error with which work was refused. */
export async function failure(work: Promise<unknown> | undefined): Promise<SyncError | undefined> {
  return work?.then(
    () => undefined,
    (error: unknown) => error as SyncError,
  );
}
