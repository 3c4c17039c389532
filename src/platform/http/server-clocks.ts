import type { Clock } from '../lib/clock.ts';
import type { HttpAnswer, HttpClient } from './http-client.ts';

/** How far the clock of a server is from ours. */
export interface Skew {
  /** Host and port. */
  readonly server: string;
  /** Milliseconds that its clock is ahead of ours; negative: behind. */
  readonly ahead: number;
}

/** Compares our clock with the `Date` of each answer. */
export interface ServerClocks {
  /** An HTTP client that observes the answers. */
  readonly http: HttpClient;
  /** Returns the clocks of servers that have answered since that time of the monotonic clock. */
  since(monotonic: number): readonly Skew[];
}

/** A header names whole seconds. */
const SECOND = 1_000;
/** Limit above the number of servers of any installation. */
const MOST_SERVERS = 1_000;

export function createServerClocks(http: HttpClient, clock: Clock): ServerClocks {
  const known = new Map<string, { readonly ahead: number; readonly heardAt: number }>();

  function note(url: string, { headers }: HttpAnswer, sentAt: number): void {
    const said = Date.parse(headers['date'] ?? '');
    // A cache in between repeats the time at which it stored the answer.
    if (Number.isNaN(said) || headers['age'] !== undefined) return;
    const { host } = new URL(url);
    known.delete(host);
    if (known.size >= MOST_SERVERS) known.clear();
    known.set(host, { ahead: distance(said, sentAt, clock.now()), heardAt: clock.monotonic() });
  }

  return {
    http: {
      async request(request) {
        const sentAt = clock.now();
        const answer = await http.request(request);
        note(request.url, answer, sentAt);
        return answer;
      },
      close: () => http.close(),
    },
    since: (monotonic) =>
      [...known].filter(([, { heardAt }]) => heardAt >= monotonic).map(([server, { ahead }]) => ({ server, ahead })),
  };
}

/** The server answered within some second, between our two times: a value in between is no difference. */
function distance(said: number, sentAt: number, receivedAt: number): number {
  if (said > receivedAt) return said - receivedAt;
  return said + SECOND < sentAt ? said + SECOND - sentAt : 0;
}
