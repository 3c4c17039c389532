import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Bench, RUNS } from '../bench.ts';
import { compared, type Measured } from '../report.ts';
import type { Reconciled, Spent } from './reconcile-child.ts';
import { type BenchServer, withPostgres } from './server.ts';

/**
 * Pull requests that reconcile takes over, over PostgreSQL against a file: those of poll pages that say again what is known
 * (`pg.reconcile`, as in `reconcile`), and those that are new, with the records that the workspace has of them
 * (`pg.reconcile.new`). By seconds of CPU of its process; what PostgreSQL uses, and the wall clock, stand in the notes.
 */
export const pgReconcile: Bench = {
  figures: ['pg.reconcile', 'pg.reconcile.new'],
  run: () => withPostgres((server) => measureReconcile(server, { items: 10_000, rounds: RUNS })),
};

interface ReconcilePlan {
  readonly items: number;
  readonly rounds: number;
}

async function measureReconcile(server: BenchServer, plan: ReconcilePlan): Promise<readonly Measured[]> {
  const file: Reconciled[] = [];
  const shared: Reconciled[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    file.push(await measure(plan.items, []));
    shared.push(await measure(plan.items, [server.place(`reconcile_${round}`), String(server.pid)]));
  }
  const row = (name: string, read: (each: Reconciled) => Spent) => {
    const note = `${noteOf('a file', file.map(read), plan.items)}; ${noteOf('PostgreSQL', shared.map(read), plan.items)}`;
    const perCpu = (each: Reconciled) => plan.items / read(each).cpu;
    const meaning = { name, unit: 'items/s of CPU', better: 'higher', aim: 0.3, note } as const;
    return compared(meaning, shared.map(perCpu), file.map(perCpu));
  };
  return [row('pg.reconcile', ({ repeated }) => repeated), row('pg.reconcile.new', ({ made }) => made)];
}

function noteOf(name: string, spent: readonly Spent[], items: number): string {
  const each = (read: (one: Spent) => number) => spent.reduce((sum, one) => sum + read(one), 0) / spent.length / items;
  const micro = (seconds: number) => `${Math.round(seconds * 1e6)} µs`;
  const wall = Math.round(1 / each(({ wall }) => wall));
  return `${name}: ${wall} items/s of the wall clock, ${micro(each(({ cpu }) => cpu))} of CPU each, ${micro(each(({ serverCpu }) => serverCpu))} in PostgreSQL`;
}

async function measure(items: number, [place = '', server = '']: readonly string[]): Promise<Reconciled> {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-bench-reconcile-'));
  mkdirSync(join(folder, 'data'));
  try {
    const child = fork(join(import.meta.dirname, 'reconcile-child.ts'), [folder, place, String(items), server]);
    const ended = once(child, 'exit');
    const message = await Promise.race([once(child, 'message'), ended]);
    const [code] = await ended;
    if (code !== 0) throw new Error(`measuring reconcile ended with ${code}`);
    return message[0] as Reconciled;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
