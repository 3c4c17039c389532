import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { namesOf } from '../support/defined-names.ts';

const TOP = join(import.meta.dirname, '../..');
const PAGE = readFileSync(join(TOP, 'src/reference-service/README.md'), 'utf8');

const RULES = namesOf(readFileSync(join(TOP, 'src/workspace-api/contract.md'), 'utf8'));

/** Rows of the table by name: the proofs named in each, as file and title. */
const ROWS = new Map(
  PAGE.split('## Tests by rule')[1]!
    .split('\n')
    .flatMap((line) => {
      const [, name, proofs] = line.match(/^\| (W\d+) +\| ?(.*?) *\|$/) ?? [];
      return name === undefined ? [] : [[name, proofsOf(proofs!)] as const];
    }),
);

function proofsOf(cell: string): { file: string; title: string }[] {
  return Array.from(cell.matchAll(/`([\w./-]+)` "(.*?)"(?=; `|$)/g), ([, file, title]) => ({
    file: file!,
    title: title!,
  }));
}

/** First arguments of `it`, `it.each(…)` and `describe.each(…)`. */
function titlesOf(file: string): string[] {
  const text = readFileSync(join(TOP, 'test', file), 'utf8');
  const call = /(?:\bit(?:\.(?:runIf|skipIf)\(\w+\))?|\](?: as const)?,?\s*\)|\b[A-Z_]+\))\(\s*(['"`])(.*?)\1,/g;
  return Array.from(text.matchAll(call), ([, , title]) => title!);
}

describe('the table of proofs in src/reference-service/README.md', () => {
  it('has a row for every rule of the contract, and no other', () => {
    expect([...ROWS.keys()].toSorted()).toEqual(RULES.toSorted());
  });

  it.each([...ROWS])('%s names tests that exist', (_name, proofs) => {
    expect(proofs).not.toEqual([]);
    for (const { file, title } of proofs) expect(titlesOf(file)).toContain(title);
  });
});
