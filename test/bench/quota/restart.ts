import type { Bench } from '../bench.ts';
import { compared, type Measured } from '../report.ts';
import { expectWithinWindows } from './expect.ts';
import { type LivesOptions, playLives } from './lives.ts';

const CHANGES = 1_100;
const PLAN = { changes: CHANGES, kills: 20, within: 4_500, down: 5 } as const;

/**
 * The rate of a drain through 20 kills, half of them with requests in flight, against the same drain without. Where the
 * machine boots as well, the times of the ledger do not count while it was down.
 */
export const restart: Bench = {
  figures: ['quota.restart'],
  async run({ split: { seeds } }) {
    const whole = await rates({ ...PLAN, kills: 0, time: 'carried' }, seeds);
    return [
      rated('quota.restart', await rates({ ...PLAN, time: 'carried' }, seeds), whole, 0.98),
      rated('quota.restart.boot', await rates({ ...PLAN, time: 'frozen' }, seeds), whole, 0.96),
    ];
  },
};

interface Rates {
  /** Changes per hour. */
  readonly perHour: readonly number[];
  readonly requests: readonly number[];
}

async function rates(plan: Omit<LivesOptions, 'seed'>, seeds: readonly number[]): Promise<Rates> {
  const perHour: number[] = [];
  const requests: number[] = [];
  for (const seed of seeds) {
    const { server, took } = await playLives({ ...plan, seed });
    expectWithinWindows(server);
    const written = new Set(server.writes.map(({ item }) => item)).size;
    if (written !== plan.changes) throw new Error(`${written} of ${plan.changes} changes were written`);
    perHour.push((plan.changes / took) * 3_600);
    requests.push(server.arrivals.length);
  }
  return { perHour, requests };
}

function rated(name: string, own: Rates, whole: Rates, aim: number): Measured {
  const note = `requests: ${own.requests.join(', ')}`;
  return compared({ name, unit: 'changes/h', better: 'higher', aim, note, everyRun: true }, own.perHour, whole.perHour);
}
