import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ATTACKS, FAULTS } from '../evidence/claims.ts';
import { beginningOf, pageOf } from '../evidence/page.ts';
import { isNamed, type Ran } from '../evidence/run.ts';
import { TOP } from '../support/processes.ts';
import { faultsOfClaims } from '../support/proofs.ts';

/** What worksync withstands: the lists name tests that exist, and the page is about these lists. */

const ROWS = [...FAULTS, ...ATTACKS];

it('names only tests and files that exist, and says what is left where nothing proves a row', () => {
  expect(faultsOfClaims(ROWS)).toEqual([]);
});

it('finds what is wrong with a list', () => {
  const file = 'test/project/evidence.test.ts';
  const rows = [
    { id: 'a', proofs: [[file, 'a test that nobody has written'.toUpperCase()] as const] },
    { id: 'b', proofs: [] },
    { id: 'c', proofs: [[file] as const] },
    { id: 'c', proofs: [[file] as const] },
  ];
  expect(faultsOfClaims(rows)).toEqual([
    `a: there is no A TEST THAT NOBODY HAS WRITTEN in ${file}`,
    'b has no proof, and does not say what is left',
    'c is there more than once',
  ]);
});

it('is written down for each row; `npm run evidence` adds what its tests have shown', () => {
  const page = readFileSync(join(TOP, 'test/evidence.md'), 'utf8').split('\n');
  const missing = ROWS.filter((row) => !page.some((line) => line.startsWith(beginningOf(row))));
  expect(missing.map(({ id }) => id)).toEqual([]);
  expect(page.filter((line) => /^\| [AF]\d/.test(line))).toHaveLength(ROWS.length);
  expect(page.filter((line) => /\*\*\d+ (failed|not run)\*\*/.test(line))).toEqual([]);
});

it('tells a failure and a test that did not run', () => {
  const shown = (failed: number, missing: readonly (readonly [string])[]) => ({ tests: 2, failed, cases: 7, missing });
  const page = pageOf(
    new Map([
      ['F1', shown(1, [])],
      ['F3', shown(0, [['x']])],
      ['F6', shown(0, [])],
    ]),
    '1',
  ).split('\n');
  const endOf = (id: string) =>
    page
      .find((line) => line.startsWith(`| ${id} |`))
      ?.split(' | ')
      .slice(-2)
      .join(' | ');
  expect(['F1', 'F3', 'F6'].map(endOf)).toEqual([
    '2 tests, 7 cases | **1 failed** |',
    '2 tests, 7 cases | **1 not run** |',
    '2 tests, 7 cases | proved |',
  ]);
});

it('keeps the figures of rows that were not run', () => {
  const before = pageOf(new Map([['F6', { tests: 3, failed: 0, cases: 0, missing: [] }]]), '1');
  expect(pageOf(new Map(), '1', before)).toBe(before);
});

it('knows a test by its title, with any values, or by that of its group', () => {
  const ran = (title: string, ...above: readonly string[]): Ran => ({
    file: 'a',
    title,
    above,
    passed: true,
    cases: 0,
  });
  expect(isNamed(ran('ends with 75, also with 4096 bytes left'), ['a', 'ends with 75, also with %d bytes left'])).toBe(
    true,
  );
  expect(isNamed(ran('deliveries of github'), ['a', 'deliveries of $id'])).toBe(true);
  expect(isNamed(ran('one', 'a group'), ['a', 'a group'])).toBe(true);
  expect(isNamed(ran('deliveries of github'), ['b', 'deliveries of $id'])).toBe(false);
  expect(isNamed(ran('more than ends at once'), ['a', 'ends at once'])).toBe(false);
});
