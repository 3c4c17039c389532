import type { Chance } from '../bench/quota/references/chance.ts';
import type { TravellingClock } from '../support/fakes/travelling-clock.ts';

/** Delays the work of a database. */
export interface Slowness {
  /** The longest delay, milliseconds; 0: none. */
  by: number;
  /** Waits for a drawn time. */
  pass(): Promise<void>;
}

export function createSlowness(clock: TravellingClock, chance: Chance): Slowness {
  const slowness: Slowness = {
    by: 0,
    async pass() {
      if (slowness.by > 0) await new Promise<void>((resolve) => clock.after(chance.whole(0, slowness.by), resolve));
    },
  };
  return slowness;
}
