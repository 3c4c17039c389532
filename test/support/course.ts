import type { Connection, Connector } from '../../src/connectors/connector.ts';
import type { SyncError } from '../../src/errors/sync-error.ts';
import type { HttpAnswer, HttpRequest } from '../../src/http/http-client.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import { createTravellingClock, type TravellingClock } from './travelling-clock.ts';
import { requireDocumented } from './vendor-requests/index.ts';

export type Reply = Partial<Omit<HttpAnswer, 'body'>> & { readonly body?: unknown };

/** What is asked, as method and path with its query, and what is answered; the JSON that is sent, where it counts. */
export type Turn = readonly [expected: string, reply?: Reply, sent?: unknown];

interface Course {
  readonly connection: Connection;
  readonly requests: readonly HttpRequest[];
  readonly clock: TravellingClock;
  /** Turns that were not taken. */
  readonly rest: readonly Turn[];
}

/** A connection over a written course of answers: each request must be the one that is due, and documented. */
export function courseOf<Options>(
  connector: Connector<Options>,
  given: object,
  origin: string,
  course: readonly Turn[],
): Course {
  const requests: HttpRequest[] = [];
  const rest = [...course];
  const clock = createTravellingClock();
  const http = {
    async request(request: HttpRequest): Promise<HttpAnswer> {
      requests.push(request);
      requireDocumented(request);
      const [expected, reply = {}, sent] = rest.shift() ?? ['nothing'];
      const asked = `${request.method} ${decodeURIComponent(request.url.replace(origin, '').replaceAll('+', ' '))}`;
      if (asked !== expected) throw new Error(`${asked} came instead of ${expected}`);
      if (sent !== undefined && JSON.stringify(sent) !== String(request.body))
        throw new Error(`${String(request.body)} was sent instead of ${JSON.stringify(sent)}`);
      const { status = 200, headers = {}, body = '' } = reply;
      return { status, headers, body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)) };
    },
    close: async () => {},
  };
  const connection = connector.connect(connector.options.parse(given), { http, clock, logger: silentLogger });
  return { connection, requests, clock, rest };
}

/** What work was refused with. */
export async function failure(work: Promise<unknown> | undefined): Promise<SyncError | undefined> {
  return work?.then(
    () => undefined,
    (error: unknown) => error as SyncError,
  );
}
