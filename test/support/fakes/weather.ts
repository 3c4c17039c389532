import type { Fault, Faults } from '../../../src/reference-service/http/pipeline.ts';

/** A request of the daemon as it arrives at the service. */
export interface Arrival {
  /** Milliseconds of travel. */
  readonly at: number;
  readonly method: string;
  readonly url: string;
}

/** A promise keeps the request waiting: no time travels meanwhile. */
type Before = (arrival: Arrival) => Fault | undefined | Promise<Fault | undefined>;
type After = (arrival: Arrival, status: number) => Fault | undefined | Promise<Fault | undefined>;

/** The network between the daemon and the service: fair, until a test makes it otherwise. People are never touched. */
export interface Weather extends Faults {
  /** Every request of the daemon, also those that the service never saw. */
  readonly arrivals: Arrival[];
  /** Answers of the service itself, by method, status and kind of address: `POST 201 pull-request-records`. */
  readonly answers: Map<string, number>;
  /** Sets the faults of requests from now on, before the service receives them, and after it has handled them. */
  turn(change: { before?: Before; after?: After }): void;
  clear(): void;
  /** Takes the requests since the last call out of `arrivals`: `GET /workspaces/current/tasks?all=true`. */
  asked(): string[];
}

/** @param elapsed milliseconds of travel; asked with each request */
export function createWeather(elapsed: () => number): Weather {
  const arrivals: Arrival[] = [];
  const answers = new Map<string, number>();
  let present: { before?: Before; after?: After } = {};
  const isDaemon = (headers: Readonly<Record<string, unknown>>) =>
    String(headers['authorization']).startsWith('Bearer wsk_');
  return {
    arrivals,
    answers,
    turn(change) {
      present = change;
    },
    clear() {
      present = {};
    },
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
  };
}

function kindOf(url: string): string {
  return /(tasks|bugs|pull-request-records|work-items)(\/[^/]*)?(\?.*)?$/.exec(url)?.[1] ?? url;
}

/** The error object of the workspace API. */
export function errorAnswer(status: number, errorCode: string, message = errorCode): Fault {
  return { status, body: JSON.stringify({ code: status, message, errorCode }) };
}
