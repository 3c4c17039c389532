import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { TOP } from '../support/harness/processes.ts';

/** The tables of `test/evidence.md` are written by hand. The tests of each row are those with its id as a tag in their title. */

const PAGE = 'test/evidence.md';
const HEADING = '\n## Tests\n';
const ROW = /^\| ([UFA]\d+) +\|/gm;
const TAG = /\[([UFA]\d+)\]/g;
/** A title that ends in tags, as the first argument of a call. */
const TITLE = /(?:^\s*|\()(['"`])((?:\\.|(?!\1)[^\\\n])+?)((?: \[[UFA]\d+\])+)\1,/gm;

interface TaggedTest {
  readonly file: string;
  readonly title: string;
  readonly ids: readonly string[];
}

const tables = readFileSync(join(TOP, PAGE), 'utf8').split(HEADING)[0]!;
const rows = Array.from(tables.matchAll(ROW), ([, id]) => id!);
const sources = globSync('test/**/*.ts', { cwd: TOP })
  .toSorted()
  .map((file) => ({ file, text: readFileSync(join(TOP, file), 'utf8') }));
const tests = sources.flatMap(({ file, text }) => taggedTests(file, text));

function taggedTests(file: string, text: string): TaggedTest[] {
  return Array.from(text.matchAll(TITLE), ([, , title, tags]) => ({ file, title: title!, ids: idsIn(tags!) }));
}

function idsIn(text: string): string[] {
  return Array.from(text.matchAll(TAG), ([, id]) => id!);
}

function testsOf(row: string): string {
  const lines = tests
    .filter(({ ids }) => ids.includes(row))
    .map(({ file, title }) => `- ${title.replaceAll('\\', '')} ([${file}](../${file}))`);
  return `\n### ${row}\n\n${lines.join('\n')}\n`;
}

it('has a test for each row, and each row once', () => {
  const proved = new Set(tests.flatMap(({ ids }) => ids));
  expect(rows.length).toBeGreaterThan(60);
  expect(rows.filter((id) => !proved.has(id))).toEqual([]);
  expect(rows.filter((id, index) => rows.indexOf(id) !== index)).toEqual([]);
});

it('has a row for each tag, and each tag is at the end of a title', () => {
  expect(
    tests.flatMap(({ file, ids }) => ids.filter((id) => !rows.includes(id)).map((id) => `${file}: ${id}`)),
  ).toEqual([]);
  const misplaced = sources
    .filter(({ file, text }) => idsIn(text).length !== taggedTests(file, text).flatMap(({ ids }) => ids).length)
    .map(({ file }) => file);
  expect(misplaced).toEqual([]);
});

it('lists the tests of each row; `npm run evidence` writes the list', async () => {
  await expect(`${tables}${HEADING}${rows.map(testsOf).join('')}`).toMatchFileSnapshot('../evidence.md');
});
