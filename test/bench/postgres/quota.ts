import { SUCCESSION } from '../../../src/daemon/compose.ts';
import type { Bench } from '../bench.ts';
import { expectWithinWindows } from '../quota/expect.ts';
import { playLives } from '../quota/lives.ts';
import { compared } from '../report.ts';

/** More than an hour takes. */
const CHANGES = 1_100;
const HOUR = 3_600;
/** A workspace is taken over after `down` seconds, as `pg.takeover.max` may have it. */
const PLAN = { changes: CHANGES, within: HOUR, down: 5, time: 'carried' } as const;
const KILLS = 20;

/**
 * Requests within an hour of 20 takeovers, and the different changes that they wrote, half of them with requests in flight, against those of one undisturbed holder: in
 * virtual time, over the store, the throttle and the outbox, with the caution of a process that takes over from one that died.
 * The ledger counts on by the one clock that all replicas share, whatever database holds it.
 */
export const pgQuota: Bench = {
  figures: ['pg.quota', 'pg.quota.changes'],
  async run({ split: { seeds } }) {
    const runs = { taken: [] as Hour[], whole: [] as Hour[] };
    for (const seed of seeds) {
      runs.taken.push(await hour(seed, KILLS));
      runs.whole.push(await hour(seed, 0));
    }
    const row = (name: string, unit: string, read: (each: Hour) => number) =>
      compared({ name, unit, better: 'higher', aim: 0.95, everyRun: true }, runs.taken.map(read), runs.whole.map(read));
    return [
      row('pg.quota', 'requests/h', ({ used }) => used),
      row('pg.quota.changes', 'changes/h', ({ written }) => written),
    ];
  },
};

interface Hour {
  readonly used: number;
  /** Different changes among them. */
  readonly written: number;
}

async function hour(seed: number, kills: number): Promise<Hour> {
  const { server } = await playLives({ ...PLAN, seed, kills, succession: SUCCESSION });
  expectWithinWindows(server);
  const written = server.writes.filter(({ arrival }) => arrival <= HOUR);
  return {
    used: server.arrivals.filter((arrival) => arrival <= HOUR).length,
    written: new Set(written.map(({ item }) => item)).size,
  };
}
