import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import type { Way } from './ways.ts';

/** One mistake, tried in one way. */
export interface Result {
  readonly seed: number;
  /** Its place among those that the seed draws. */
  readonly place: number;
  readonly at: string;
  readonly kind: string;
  /** What stood there, and what stands there instead. */
  readonly from: string;
  readonly to: string;
  readonly way: Way;
  /** What told of it, or why nobody can see it; null: nothing told of it. */
  readonly found: string | null;
}

/** Results of this run and of those before it, as JSON lines: a run that was interrupted goes on, and may be cut into parts. */
export interface Results {
  readonly all: readonly Result[];
  add(result: Result): void;
}

export function openResults(file: string | undefined): Results {
  const lines = file !== undefined && existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  const all = lines.map((line) => JSON.parse(line) as Result);
  return {
    all,
    add(result) {
      all.push(result);
      if (file !== undefined) appendFileSync(file, `${JSON.stringify(result)}\n`);
    },
  };
}
