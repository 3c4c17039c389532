import type { Bench } from '../bench.ts';
import { compared, type Measured } from '../report.ts';
import { atOnce } from './at-once.ts';
import { expectWithinWindows } from './expect.ts';
import { PEERS, playPeer } from './peers.ts';
import { play } from './play.ts';
import { createChance, randomDurations } from './references/chance.ts';
import { optimum, ruleOfCompletion } from './references/optimum.ts';
import { eventsOf } from './references/trace.ts';

/** Changes at once, and how close to the optimum their drain is to be. 40 fit into one window: no ratio says anything. */
const AIMS: readonly (readonly [count: number, aim: number | false])[] = [
  [40, false],
  [200, 1.03],
  [1_000, 1.005],
  [1_100, 1.005],
];
const D = 0.15;

/**
 * Seconds from so many distinct changes at once to the last answer, over the optimum. Requests take random times; the
 * ledger is empty and the share 1. `.cold`: the daemon's first start, whose two reads are counted in the optimum.
 */
export const drain: Bench = {
  figures: ['quota.drain'],
  async run({ split: { seeds } }) {
    const figures: Measured[] = [];
    for (const [count, aim] of AIMS) {
      figures.push(await own({ name: `quota.drain.${count}`, count, reads: 0, aim, seeds }));
      figures.push(
        await own({ name: `quota.drain.${count}.cold`, count, reads: 2, aim: count === 40 ? 1.03 : aim, seeds }),
      );
      figures.push(await fixed(count));
      for (const peer of PEERS) figures.push(await ofPeer(count, peer, seeds));
    }
    return figures;
  },
};

const chances = (seed: number) => ({ duration: randomDurations(seed), arrives: createChance(seed + 100).float });

interface Drain {
  readonly name: string;
  readonly count: number;
  readonly reads: number;
  readonly aim: number | false;
  readonly seeds: readonly number[];
}

async function own({ name, count, reads, aim, seeds }: Drain): Promise<Measured> {
  const seconds: number[] = [];
  for (const seed of seeds) {
    const played = await play({ lines: atOnce(count), knowsLists: reads === 0, ...chances(seed) });
    expectWithinWindows(played.server);
    seconds.push(played.took);
  }
  const best = optimum(count + reads) + D;
  const meaning = { name, unit: 's', better: 'lower', aim, everyRun: true } as const;
  return compared(
    meaning,
    seconds,
    seeds.map(() => best),
  );
}

/** All requests take the same time: then the rule of completion says how long the drain takes, to a tenth of a second. */
async function fixed(count: number): Promise<Measured> {
  const { server } = await play({ lines: atOnce(count) });
  expectWithinWindows(server);
  const starts = server.writes.map(({ start }) => start);
  const took = Math.max(...server.writes.map(({ end }) => end)) - Math.min(...starts);
  const rule = ruleOfCompletion(count, { concurrency: 8, d: D, guards: [0.451, 0.031] });
  const note = 'every request takes 0.15 s, counted from the first: against the rule "one window after completion"';
  return compared({ name: `quota.drain.${count}.fixed`, unit: 's', better: 'lower', aim: 1.001, note }, [took], [rule]);
}

async function ofPeer(count: number, peer: (typeof PEERS)[number], seeds: readonly number[]): Promise<Measured> {
  const events = eventsOf(atOnce(count));
  const played = [];
  for (const seed of seeds) played.push(await playPeer(peer, events, chances(seed)));
  const note = `refused: ${played.map(({ refused }) => refused).join(', ')}`;
  return compared(
    { name: `quota.drain.${count}.${peer}`, unit: 's', better: 'lower', aim: false, note },
    played.map(({ took }) => took),
    seeds.map(() => optimum(count) + D),
  );
}
