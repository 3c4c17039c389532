import type { ProviderState, Vendor } from '../support/vendors/provider-servers/provider.ts';
import type { Forge } from './plan.ts';
import { BLANK } from './pull-fields.ts';

/** Pull requests from the time before worksync began. What is open is found by a sweep, and the rest only when somebody asks for it. */
export interface Past {
  /** There are so many at this vendor, by their numbers from this one on. */
  begin(forge: Forge, vendor: ProviderState<Vendor>, count: number, first?: number): void;
  /** Somebody has asked for them, and was told that they come. */
  asked(forge: Forge): void;
  /** An older backup was put back, which may not know of that. */
  forgotten(): void;
  /** Whether worksync need not know of this one. */
  isUnheard(forge: Forge, number: number): boolean;
}

/** No other pull request of a plan has so large a number. */
const FIRST = 1_001;
const HOUR = 3_600_000;
const STATES = ['merged', 'closed', 'open', 'closed'] as const;

export function createPast(began: number): Past {
  const closed = new Map<Forge, Set<number>>();
  const known = new Set<Forge>();
  return {
    begin(forge, vendor, count, first = FIRST) {
      const ofForge = closed.get(forge) ?? new Set<number>();
      for (let number = first; number < first + count; number++) {
        const state = STATES[number % STATES.length] as (typeof STATES)[number];
        const title = `${number % 5 === 0 ? `BUG-${number % 8}: ` : ''}Change of before`;
        const line = { at: 0, connection: forge, item: `app/${number}`, updated: 0, event: 'edited' };
        vendor.happen({ ...line, fields: { ...BLANK, title, state } }, began - (number - first + 2) * HOUR);
        if (state !== 'open') ofForge.add(number);
      }
      closed.set(forge, ofForge);
    },
    asked: (forge) => void known.add(forge),
    forgotten: () => known.clear(),
    isUnheard: (forge, number) => !known.has(forge) && closed.get(forge)?.has(number) === true,
  };
}
