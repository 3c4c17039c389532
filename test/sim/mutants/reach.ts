import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Mutation } from './operators.ts';
import { roomOf } from './places.ts';

interface Script {
  readonly url: string;
  readonly functions: readonly {
    readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[];
  }[];
}

interface Covered {
  readonly result: readonly Script[];
}

/** Tells whether the simulation runs a place at all: where it never does it finds no mistake, and is not tried. */
export function reachOf(folder: string, runs: number): (mutation: Mutation) => boolean {
  const place = mkdtempSync(join(tmpdir(), 'worksync-reach-'));
  const env = { ...process.env, NODE_V8_COVERAGE: place };
  for (const plans of [['--varied', '--runs', String(runs)], ['--known']])
    spawnSync(process.execPath, ['test/sim/main.ts', '--replicas', '1', ...plans], { cwd: folder, env });
  const covered = Map.groupBy(
    readdirSync(place).flatMap((name) => (JSON.parse(readFileSync(join(place, name), 'utf8')) as Covered).result),
    ({ url }) => url,
  );
  rmSync(place, { recursive: true, force: true });
  return ({ file, start }) => {
    // Leases are taken by replicas alone, which take longer.
    if (roomOf(file) === 'cluster') return true;
    const scripts = covered.get(`file://${join(folder, file)}`);
    return scripts === undefined || scripts.some((script) => countAt(script, start) > 0);
  };
}

/** How often the innermost piece of code there ran. */
function countAt({ functions }: Script, at: number): number {
  const around = functions
    .flatMap(({ ranges }) => ranges)
    .filter(({ startOffset, endOffset }) => startOffset <= at && at < endOffset);
  const sizeOf = (range: (typeof around)[number]) => range.endOffset - range.startOffset;
  return around.toSorted((one, other) => sizeOf(one) - sizeOf(other))[0]?.count ?? 0;
}
