import type { TravellingClock } from '../../support/fakes/travelling-clock.ts';
import { expectPremise } from '../bench.ts';
import { createGate, fullest, WINDOWS, type Window } from './references/windows.ts';

export type Server = ReturnType<typeof createServer>;

export interface ServerAnswer {
  /** Whole seconds to wait, where it was refused. */
  readonly retryAfter: number | undefined;
}

interface ServerWrite {
  readonly item: string;
  readonly start: number;
  readonly arrival: number;
  readonly end: number;
}

export interface ServerOptions {
  readonly clock: TravellingClock;
  readonly duration: () => number;
  /** Where between start and end it arrives, 0..1. */
  readonly arrives: () => number;
  readonly windows?: readonly Window[];
}

/** The workspace's end of a request in virtual time: it takes `duration` seconds and arrives somewhere within. */
export function createServer({ clock, duration, arrives, windows }: ServerOptions) {
  const gate = createGate(windows);
  const arrivals: number[] = [];
  const writes: ServerWrite[] = [];
  let refused = 0;
  let inFlight = 0;
  const seconds = () => clock.elapsed() / 1_000;
  return {
    gate,
    /** Every request that arrived, let in or not, in order of arrival. */
    arrivals: arrivals as readonly number[],
    writes: writes as readonly ServerWrite[],
    get refused() {
      return refused;
    },
    get inFlight() {
      return inFlight;
    },
    /** Calls `answer` when the answer is back; it is counted at its arrival, which comes also where nobody waits any more. */
    request(item: string | undefined, answer: (answer: ServerAnswer) => void): void {
      const takes = duration();
      const start = seconds();
      const reaches = arrives() * takes;
      inFlight++;
      clock.after(reaches * 1_000, () => {
        const arrival = seconds();
        arrivals.push(arrival);
        const retryAfter = gate.arrive(arrival);
        if (retryAfter !== undefined) refused++;
        else if (item !== undefined) writes.push({ item, start, arrival, end: start + takes });
        clock.after((takes - reaches) * 1_000, () => {
          inFlight--;
          answer({ retryAfter });
        });
      });
    },
  };
}

/** A figure reached by exceeding a window is none. Every arrival counts, also those of requests that nobody awaited. */
export function expectWithinWindows({ arrivals, refused }: Server): void {
  expectPremise(refused === 0 && arrivals.length > 0, `${refused} of ${arrivals.length} requests were refused`);
  for (const { cap, length } of WINDOWS) {
    const most = fullest(arrivals, length);
    expectPremise(most <= cap, `${most} requests arrived within ${length} s`);
  }
}
