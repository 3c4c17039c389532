import { SyncError } from '../../../src/model/errors.ts';
import type { HttpClient, HttpRequest } from '../../../src/platform/http/http-client.ts';
import type { Clock } from '../../../src/platform/lib/clock.ts';

/** How a server that is out of reach fails a request, as our client tells it. */
export type Absence = (clock: Pick<Clock, 'after'>, request: HttpRequest) => Promise<never>;

/** The connection is refused, or the name is unknown: nothing was sent. */
export const refuses: Absence = async () => {
  throw new SyncError('unreachable', 'connect ECONNREFUSED');
};

/** The connection is cut when the request has arrived. */
export const resets: Absence = async () => {
  throw new SyncError('outcome_unknown', 'got no answer: ECONNRESET');
};

/** Nothing comes back: the client gives up after all the time that it has. */
export const hangs: Absence = (clock, { signal }) =>
  new Promise((_, reject) => {
    const cancel = clock.after(30_000, () => reject(new SyncError('outcome_unknown', 'got no answer: out of time')));
    signal?.addEventListener('abort', () => {
      cancel();
      reject(new SyncError('aborted', 'the request was aborted'));
    });
  });

/** A client for which one server, as requests name their target, is away while `present` says how. */
export function awayAtTimes(
  own: HttpClient,
  target: string,
  { present, clock }: { present(): Absence | undefined; clock(): Pick<Clock, 'after'> },
): HttpClient {
  return {
    request(request) {
      const absence = request.target === target ? present() : undefined;
      return absence ? absence(clock(), request) : own.request(request);
    },
    close: () => own.close(),
  };
}
