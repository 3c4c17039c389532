import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Mutation } from './operators.ts';
import { roomOf } from './places.ts';

interface Covered {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[];
    }[];
  }[];
}

/** Tells whether the simulation runs a place at all: where it never does it finds no mistake, and is not tried. */
export function reachOf(folder: string, runs: number): (mutation: Mutation) => boolean {
  const place = mkdtempSync(join(tmpdir(), 'worksync-reach-'));
  const env = { ...process.env, NODE_V8_COVERAGE: place };
  spawnSync(process.execPath, ['test/sim/main.ts', '--varied', '--replicas', '1', '--runs', String(runs)], {
    cwd: folder,
    env,
  });
  const covered = new Map(
    readdirSync(place)
      .flatMap((name) => (JSON.parse(readFileSync(join(place, name), 'utf8')) as Covered).result)
      .map(({ url, functions }) => [url, functions.flatMap(({ ranges }) => ranges)]),
  );
  rmSync(place, { recursive: true, force: true });
  return ({ file, start }) => {
    // Leases are taken by replicas alone, which take longer.
    if (roomOf(file) === 'lease') return true;
    const ranges = covered.get(`file://${join(folder, file)}`);
    // The innermost one counts.
    const own = ranges?.filter(({ startOffset, endOffset }) => startOffset <= start && start < endOffset);
    const innermost = own?.toSorted(
      (one, other) => one.endOffset - one.startOffset - (other.endOffset - other.startOffset),
    );
    return ranges === undefined || (innermost?.[0]?.count ?? 0) > 0;
  };
}
