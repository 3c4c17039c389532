/** Spreads what would begin at once. */
export interface Stagger {
  /** One more is there that is going to begin. */
  announce(): void;
  /** It does not begin after all. */
  withdraw(): void;
  /**
   * It begins now. @returns how long it is to hold back at most, milliseconds: the longer, the more begin together with it; nothing for
   * one that begins alone
   */
  begin(): number;
}

/** Between the first runs of two of them, milliseconds, and the longest that anybody holds back. */
const APART = 150;
const LONGEST = 300_000;

/** @param passed milliseconds that passed */
export function createStagger(passed: () => number): Stagger {
  let announced = 0;
  /** When others began, not longer ago than anybody holds back. */
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
