/** Spreads jobs that would begin at the same time. */
export interface StartupJitter {
  /** One more is there that is going to begin. */
  announce(): void;
  /** It does not begin after all. */
  withdraw(): void;
  /**
   * It begins now. @returns its longest delay, milliseconds: the longer, the more begin together with it;
   * nothing for one that begins alone
   */
  begin(): number;
}

/** Between the first runs of two of them, milliseconds, and the longest delay of any. */
const APART = 150;
const LONGEST = 300_000;

/** @param passed milliseconds that passed */
export function createStartupJitter(passed: () => number): StartupJitter {
  let announced = 0;
  /** When others began, within the longest delay. */
  let begun: number[] = [];
  return {
    announce: () => void announced++,
    withdraw: () => void announced--,
    begin() {
      const now = passed();
      begun = begun.filter((at) => now - at < LONGEST);
      const others = announced - 1 + begun.length;
      announced--;
      begun.push(now);
      return Math.min(LONGEST, others * APART);
    },
  };
}

const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** A place in [0, 1) for a number, always the same one. Those of numbers that follow each other lie as evenly as can be. */
export function phaseOf(number: number): number {
  return (number * GOLDEN) % 1;
}
