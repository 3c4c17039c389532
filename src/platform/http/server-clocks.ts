import type { Clock } from '../lib/clock.ts';
import type { HttpAnswer, HttpClient } from './http-client.ts';

/** The difference between the clock of a server and ours. */
export interface Skew {
  /** Host and port. */
  readonly server: string;
  /** Milliseconds that its clock is ahead of ours; negative: behind. */
  readonly ahead: number;
}

export type ServerClocks = ReturnType<typeof createServerClocks>;

/** The header has whole seconds. */
const SECOND = 1_000;
/** Limit above the number of servers of any installation. */
const MOST_SERVERS = 1_000;

/** Compares our clock with the `Date` of each answer. */
export function createServerClocks(http: HttpClient, clock: Clock) {
  const known = new Map<string, { readonly ahead: number; readonly receivedAt: number }>();

  function note(url: string, { headers }: HttpAnswer, sentAt: number): void {
    const date = Date.parse(headers['date'] ?? '');
    // A cache in between repeats the time at which it stored the answer.
    if (Number.isNaN(date) || headers['age'] !== undefined) return;
    const { host } = new URL(url);
    known.delete(host);
    if (known.size >= MOST_SERVERS) known.clear();
    known.set(host, { ahead: distance(date, sentAt, clock.now()), receivedAt: clock.monotonic() });
  }

  const observing: HttpClient = {
    async request(request) {
      const sentAt = clock.now();
      const answer = await http.request(request);
      note(request.url, answer, sentAt);
      return answer;
    },
    close: () => http.close(),
  };
  return {
    /** An HTTP client that observes the answers. */
    http: observing,
    /** Returns the clocks of servers that have answered since that time of the monotonic clock. */
    since: (monotonic: number): readonly Skew[] =>
      [...known]
        .filter(([, { receivedAt }]) => receivedAt >= monotonic)
        .map(([server, { ahead }]) => ({ server, ahead })),
  };
}

/** Returns 0 if the second of the answer overlaps our two times. */
function distance(date: number, sentAt: number, receivedAt: number): number {
  if (date > receivedAt) return date - receivedAt;
  return date + SECOND < sentAt ? date + SECOND - sentAt : 0;
}
