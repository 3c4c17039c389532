import type { Bench } from '../bench.ts';
import { compared } from '../report.ts';
import { atOnce } from './at-once.ts';
import { expectWithinWindows } from './expect.ts';
import { type Played, play } from './play.ts';
import { createChance } from './references/chance.ts';
import { optimum } from './references/optimum.ts';

const CHANGES = 1_100;
const DAY = 86_400_000;
/** Seconds between two jumps of the wall clock. */
const JUMP_EVERY = 400;

/** The rate of a drain while the wall clock jumps a day ahead and back and requests arrive up to 2 s after their start. */
export const clock: Bench = {
  figures: ['quota.clock'],
  async run({ split: { seeds } }) {
    const rates: number[] = [];
    for (const seed of seeds) {
      const { server, took } = await playJumps(seed, CHANGES);
      expectWithinWindows(server);
      rates.push((CHANGES / took) * 3_600);
    }
    const best = (CHANGES / (optimum(CHANGES) + 2)) * 3_600;
    const meaning = { name: 'quota.clock', unit: 'changes/h', better: 'higher', aim: 0.98, everyRun: true } as const;
    return [
      compared(
        meaning,
        rates,
        seeds.map(() => best),
      ),
    ];
  },
};

export function playJumps(seed: number, changes: number): Promise<Played> {
  const chance = createChance(seed);
  return play({
    lines: atOnce(changes),
    duration: () => chance.between(0, 2),
    arrives: () => chance.float(),
    meddle(travelling) {
      const jump = () => {
        travelling.jumpWall(chance.happens(0.5) ? DAY : -DAY);
        travelling.after(JUMP_EVERY * 1_000, jump);
      };
      travelling.after(JUMP_EVERY * 500, jump);
    },
  });
}
