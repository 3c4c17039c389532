import type { Fault, Faults } from '../../../src/reference-service/http/pipeline.ts';

export interface Arrival {
  /** Milliseconds of travel. */
  readonly at: number;
  readonly method: string;
  readonly url: string;
}

/** A promise keeps the request waiting: no time travels meanwhile. */
type Before = (arrival: Arrival) => Fault | undefined | Promise<Fault | undefined>;
type After = (arrival: Arrival, status: number) => Fault | undefined | Promise<Fault | undefined>;

export type Weather = ReturnType<typeof createWeather>;

/**
 * The network between the daemon and the service: fair, until a test makes it otherwise. People are never touched.
 *
 * @param elapsed milliseconds of travel; asked with each request
 */
export function createWeather(elapsed: () => number) {
  const arrivals: Arrival[] = [];
  const answers = new Map<string, number>();
  let present: { before?: Before; after?: After } = {};
  const isDaemon = (headers: Readonly<Record<string, unknown>>) =>
    String(headers['authorization']).startsWith('Bearer wsk_');
  return {
    /** Every request of the daemon, also those that the service never saw. */
    arrivals,
    /** Answers of the service itself, by method, status and kind of address: `POST 201 pull-request-records`. */
    answers,
    /** Sets the faults of requests from now on, before the service receives them, and after it has handled them. */
    turn: (change: typeof present) => void (present = change),
    clear: () => void (present = {}),
    /** Takes the requests since the last call out of `arrivals`: `GET /workspaces/current/tasks?all=true`. */
    asked: () => arrivals.splice(0).map(({ method, url }) => `${method} ${url.replace('/api/v1', '')}`),
    async before({ method, url, headers }) {
      if (!isDaemon(headers)) return undefined;
      const arrival = { at: elapsed(), method, url };
      arrivals.push(arrival);
      return present.before?.(arrival);
    },
    async after({ method, url, headers }, { status }) {
      if (!isDaemon(headers)) return undefined;
      const name = `${method} ${status} ${kindOf(url)}`;
      answers.set(name, (answers.get(name) ?? 0) + 1);
      return present.after?.({ at: elapsed(), method, url }, status);
    },
  } satisfies Faults & Record<string, unknown>;
}

function kindOf(url: string): string {
  return /(tasks|bugs|pull-request-records|work-items)(\/[^/]*)?(\?.*)?$/.exec(url)?.[1] ?? url;
}

export function errorAnswer(status: number, errorCode: string, message = errorCode): Fault {
  return { status, body: JSON.stringify({ code: status, message, errorCode }) };
}
