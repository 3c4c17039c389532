import { hash } from 'node:crypto';
import type { Random } from '../../src/platform/lib/random.ts';
import { type Chance, createChance } from '../bench/quota/references/chance.ts';

/** A stream of chance of its own for each purpose: what one of them draws changes nothing for the others. */
export function chanceOf(seed: number, purpose: string): Chance {
  return createChance(Number.parseInt(hash('sha256', `${seed} ${purpose}`, 'hex').slice(0, 8), 16));
}

export function randomOf(chance: Chance): Random {
  const bytes = (length: number) => Buffer.from(Array.from({ length }, () => chance.whole(0, 255)));
  return {
    float: chance.float,
    bytes,
    uuid() {
      const digits = bytes(16).toString('hex');
      return [
        digits.slice(0, 8),
        digits.slice(8, 12),
        `4${digits.slice(13, 16)}`,
        `a${digits.slice(17, 20)}`,
        digits.slice(20),
      ].join('-');
    },
  };
}

export function oneOf<Each>(chance: Chance, all: readonly Each[]): Each {
  return all[chance.whole(0, all.length - 1)] as Each;
}
