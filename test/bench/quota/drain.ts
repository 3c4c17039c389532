import { SUCCESSION } from '../../../src/daemon/compose.ts';
import { type Bench, expectPremise, figureOf, figuresOf, type Meaning, type Measured } from '../bench.ts';
import { PEERS, playPeer } from './peers.ts';
import { type LivesOptions, type Played, play, playLives } from './play.ts';
import { createChance, randomDurations } from './references/chance.ts';
import { atOnce, eventsOf } from './references/trace.ts';
import { optimum, ruleOfCompletion } from './references/windows.ts';
import { expectWithinWindows } from './server.ts';

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
      const name = `quota.drain.${count}`;
      const whole = await ofSeeds(seeds, (seed) => playOwn(count, 0, seed));
      const cold = await ofSeeds(seeds, (seed) => playOwn(count, 2, seed));
      figures.push(
        over(whole, optimum(count) + D, { name, unit: 's', aim, everyRun: true }),
        over(cold, optimum(count + 2) + D, {
          ...{ name: `${name}.cold`, unit: 's', aim: count === 40 ? 1.03 : aim, everyRun: true },
        }),
        await fixed(count),
      );
      for (const peer of PEERS) {
        const played = await ofSeeds(seeds, (seed) => playPeer(peer, eventsOf(atOnce(count)), chances(seed)));
        const note = `refused: ${played.map(({ refused }) => refused).join(', ')}`;
        figures.push(over(played, optimum(count) + D, { name: `${name}.${peer}`, unit: 's', note }));
      }
    }
    return figures;
  },
};

const chances = (seed: number) => ({ duration: randomDurations(seed), arrives: createChance(seed + 100).float });

async function ofSeeds<Run>(seeds: readonly number[], playOne: (seed: number) => Promise<Run>): Promise<Run[]> {
  const runs: Run[] = [];
  for (const seed of seeds) runs.push(await playOne(seed));
  return runs;
}

function over(runs: readonly { readonly took: number }[], best: number, meaning: Meaning): Measured {
  return figureOf(runs, { ...meaning, of: ({ took }) => took, against: () => best });
}

async function playOwn(count: number, reads: number, seed: number): Promise<Played> {
  const played = await play({ lines: atOnce(count), knowsLists: reads === 0, ...chances(seed) });
  expectWithinWindows(played.server);
  return played;
}

/** All requests take the same time: then the rule of completion says how long the drain takes, to a tenth of a second. */
async function fixed(count: number): Promise<Measured> {
  const { server } = await play({ lines: atOnce(count) });
  expectWithinWindows(server);
  const starts = server.writes.map(({ start }) => start);
  const took = Math.max(...server.writes.map(({ end }) => end)) - Math.min(...starts);
  const rule = ruleOfCompletion(count, { concurrency: 8, d: D, guards: [0.451, 0.031] });
  const note = 'every request takes 0.15 s, counted from the first: against the rule "one window after completion"';
  return over([{ took }], rule, { name: `quota.drain.${count}.fixed`, unit: 's', aim: 1.001, note });
}

/** More than an hour takes. */
const CHANGES = 1_100;
const HOUR = 3_600;
const DAY = 24 * HOUR * 1_000;
/** Seconds between two jumps of the wall clock. */
const JUMP_EVERY = 400;

/** The rate of a drain while the wall clock jumps a day ahead and back and requests arrive up to 2 s after their start. */
export const clock: Bench = {
  figures: ['quota.clock'],
  async run({ split: { seeds } }) {
    const played = await ofSeeds(seeds, (seed) => playJumps(seed, CHANGES));
    for (const { server } of played) expectWithinWindows(server);
    const rate = (seconds: number) => (CHANGES / seconds) * HOUR;
    const meaning = { name: 'quota.clock', unit: 'changes/h', better: 'higher', aim: 0.98, everyRun: true } as const;
    const best = rate(optimum(CHANGES) + 2);
    return figuresOf(played, { ...meaning, of: ({ took }) => rate(took), against: () => best });
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

interface Life {
  readonly perHour: number;
  readonly requests: number;
  /** Requests of the first hour, and the different changes that they wrote. */
  readonly inHour: { readonly used: number; readonly written: number };
}

/** Half of the kills fall while requests are in flight. */
async function playKills(seed: number, options: Omit<LivesOptions, 'seed' | 'changes' | 'down'>): Promise<Life> {
  const { server, took } = await playLives({ changes: CHANGES, down: 5, seed, ...options });
  expectWithinWindows(server);
  const written = (until: number) =>
    new Set(server.writes.filter(({ arrival }) => arrival <= until).map(({ item }) => item)).size;
  expectPremise(written(Number.POSITIVE_INFINITY) === CHANGES, `all of ${CHANGES} changes are written`);
  return {
    ...{ perHour: (CHANGES / took) * HOUR, requests: server.arrivals.length },
    inHour: { used: server.arrivals.filter((arrival) => arrival <= HOUR).length, written: written(HOUR) },
  };
}

/** Figures of lives with kills against the same without. */
async function ofKills(
  seeds: readonly number[],
  options: Omit<LivesOptions, 'seed' | 'changes' | 'down' | 'kills'>,
  ...rows: readonly (Meaning & { read(life: Life): number })[]
): Promise<Measured[]> {
  const lives = await ofSeeds(seeds, async (seed) => ({
    killed: await playKills(seed, { ...options, kills: 20 }),
    whole: await playKills(seed, { ...options, kills: 0 }),
  }));
  const note = `requests: ${lives.map(({ killed }) => killed.requests).join(', ')}`;
  const row = ({ read, ...meaning }: (typeof rows)[number]) => ({
    ...({ ...meaning, note, better: 'higher', everyRun: true } as const),
    of: ({ killed }: (typeof lives)[number]) => read(killed),
    against: ({ whole }: (typeof lives)[number]) => read(whole),
  });
  return figuresOf(lives, ...rows.map(row));
}

/**
 * The rate of a drain through 20 kills, half of them with requests in flight, against the same drain without. Where the
 * machine boots as well, the times of the ledger do not count while it was down.
 */
export const restart: Bench = {
  figures: ['quota.restart'],
  async run({ split: { seeds } }) {
    const rate = { unit: 'changes/h', read: ({ perHour }: Life) => perHour };
    const within = 4_500;
    return [
      ...(await ofKills(seeds, { within, time: 'carried' }, { ...rate, name: 'quota.restart', aim: 0.98 })),
      ...(await ofKills(seeds, { within, time: 'frozen' }, { ...rate, name: 'quota.restart.boot', aim: 0.96 })),
    ];
  },
};

/**
 * Requests within an hour of 20 takeovers, and the different changes that they wrote, half of them with requests in flight, against those of one undisturbed holder: in
 * virtual time, over the store, the throttle and the outbox, with the caution of a process that takes over from one that died.
 * The ledger counts on by the one clock that all replicas share, whatever database holds it. A workspace is taken over after
 * the 5 s that `pg.takeover.max` may have.
 */
export const pgQuota: Bench = {
  figures: ['pg.quota', 'pg.quota.changes'],
  run: ({ split: { seeds } }) =>
    ofKills(
      seeds,
      { within: HOUR, time: 'carried', succession: SUCCESSION },
      { name: 'pg.quota', unit: 'requests/h', aim: 0.95, read: ({ inHour }) => inHour.used },
      { name: 'pg.quota.changes', unit: 'changes/h', aim: 0.95, read: ({ inHour }) => inHour.written },
    ),
};
