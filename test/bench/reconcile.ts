import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, figuresOf, inChild, inFolder, type Measured, RUNS } from './bench.ts';
import { ITEMS } from './known-items.ts';
import { type BenchServer, withPostgres } from './postgres/server.ts';
import type { Reconciled, Spent } from './reconcile-child.ts';

const measureIn = <Told>(...args: readonly string[]) => inChild<Told>('reconcile-child.ts', args);

/**
 * Unchanged pull requests per second: poll pages that say again what is known of 100 000 items. The limit is reading the
 * same rows and no more: bodies, unpacked and parsed, and the marks of their items.
 */
export const reconcile: Bench = {
  figures: ['reconcile'],
  async run({ knownItems }) {
    const folder = await knownItems();
    const rounds: { drain: number; raw: number }[] = [];
    const perSecond = async (kind: 'drain' | 'raw') => ITEMS / (await measureIn<Spent>(folder, kind)).wall;
    while (rounds.length < RUNS) rounds.push({ drain: await perSecond('drain'), raw: await perSecond('raw') });
    const note = 'the limit reads and decodes the same rows: bodies and marks';
    const row = { name: 'reconcile', unit: 'items/s', better: 'higher', aim: 0.25, note } as const;
    return figuresOf(rounds, { ...row, of: ({ drain }) => drain, against: ({ raw }) => raw });
  },
};

/**
 * Pull requests that reconcile takes over, over PostgreSQL against a file: those of poll pages that say again what is known
 * (`pg.reconcile`, as in `reconcile`), and those that are new, with the records that the workspace has of them
 * (`pg.reconcile.new`). By seconds of CPU of its process; what PostgreSQL uses, and the wall clock, stand in the notes.
 */
export const pgReconcile: Bench = {
  figures: ['pg.reconcile', 'pg.reconcile.new'],
  run: () => withPostgres(measureReconcile),
};

const MADE = 10_000;

async function measureReconcile(server: BenchServer): Promise<readonly Measured[]> {
  const rounds: { file: Reconciled; shared: Reconciled }[] = [];
  for (let round = 0; round < RUNS; round++) {
    const file = await measureMade();
    rounds.push({ file, shared: await measureMade(server.place(`reconcile_${round}`), String(server.pid)) });
  }
  const row = (name: string, read: (each: Reconciled) => Spent) => {
    const noteOf = (which: 'file' | 'shared') => costsOf(rounds.map((round) => read(round[which])));
    const note = `a file: ${noteOf('file')}; PostgreSQL: ${noteOf('shared')}`;
    const perCpu = (each: Reconciled) => MADE / read(each).cpu;
    const meaning = { name, unit: 'items/s of CPU', better: 'higher', aim: 0.3, note } as const;
    return {
      ...meaning,
      of: (round: (typeof rounds)[number]) => perCpu(round.shared),
      against: (round: (typeof rounds)[number]) => perCpu(round.file),
    };
  };
  return figuresOf(
    rounds,
    row('pg.reconcile', ({ repeated }) => repeated),
    row('pg.reconcile.new', ({ made }) => made),
  );
}

function measureMade(...place: readonly string[]): Promise<Reconciled> {
  return inFolder((folder) => {
    mkdirSync(join(folder, 'data'));
    return measureIn(folder, String(MADE), ...place);
  });
}

function costsOf(spent: readonly Spent[]): string {
  const each = (read: (one: Spent) => number) => spent.reduce((sum, one) => sum + read(one), 0) / spent.length / MADE;
  const micro = (seconds: number) => `${Math.round(seconds * 1e6)} µs`;
  const wall = Math.round(1 / each(({ wall }) => wall));
  return `${wall} items/s of the wall clock, ${micro(each(({ cpu }) => cpu))} of CPU each, ${micro(each(({ serverCpu }) => serverCpu))} in PostgreSQL`;
}
