import { sleep } from '../../../src/platform/lib/clock.ts';
import type { TravellingClock } from '../../support/fakes/travelling-clock.ts';
import type { Gate } from './references/windows.ts';

/** Seconds that a request takes. */
const D = 0.15;

export interface Wait {
  readonly wish: number;
  /** Seconds until it was let in, and how often it was refused before. */
  readonly wait: number;
  readonly refused: number;
}

interface World {
  readonly gate: Gate;
  readonly clock: TravellingClock;
  /** Filled as requests are let in. */
  readonly waits: Wait[];
}

/**
 * Another user of the workspace: one request at a time; refused, it waits as long as it is told and asks again.
 *
 * @param wishes when it wants to send, seconds, ascending
 */
export async function sendAll(wishes: readonly number[], { gate, clock, waits }: World): Promise<void> {
  const seconds = () => clock.elapsed() / 1_000;
  for (const wish of wishes) {
    await sleep(clock, Math.max(0, wish - seconds()) * 1_000);
    let refused = 0;
    for (;;) {
      const retryAfter = gate.arrive(seconds());
      if (retryAfter === undefined) break;
      refused++;
      await sleep(clock, retryAfter * 1_000);
    }
    waits.push({ wish, wait: Math.max(0, seconds() - wish), refused });
    await sleep(clock, D * 1_000);
  }
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}
