import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TOP } from './processes.ts';

/** What proves a claim: a test by its file and title, or a file that exists. */
export type Proof = readonly [file: string, test?: string];

/** A claim of ours, with what proves it. */
export interface Claim {
  readonly id: string;
  readonly proofs: readonly Proof[];
  /** What is not done, or not proved, yet. */
  readonly left?: string;
}

/** Whether the file is there, and has a test of this title: the title as it is written, whatever the quotes. */
export function isThere([file, test]: Proof): boolean {
  const path = join(TOP, file);
  if (!existsSync(path)) return false;
  if (test === undefined) return true;
  const text = readFileSync(path, 'utf8');
  return [`'${test}'`, `"${test}"`, `\`${test}\``].some((title) => text.includes(title));
}

/** What is wrong with a list of claims, a sentence each. */
export function faultsOfClaims(claims: readonly Claim[]): readonly string[] {
  const missing = claims.flatMap(({ id, proofs }) =>
    proofs.filter((proof) => !isThere(proof)).map((proof) => `${id}: there is no ${proof.toReversed().join(' in ')}`),
  );
  const bare = claims
    .filter(({ proofs, left }) => proofs.length === 0 && left === undefined)
    .map(({ id }) => `${id} has no proof, and does not say what is left`);
  const repeated = [...Map.groupBy(claims, ({ id }) => id)].filter(([, each]) => each.length > 1);
  return [...missing, ...bare, ...repeated.map(([id]) => `${id} is there more than once`)];
}

/** As cells of a table of Markdown, for a page in `test/`. */
export function wordsOf(proofs: readonly Proof[]): string {
  const link = (file: string) => `([${file}](../${file}))`;
  return proofs.map(([file, test]) => (test === undefined ? link(file) : `${test} ${link(file)}`)).join('<br>') || '–';
}
