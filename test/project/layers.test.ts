import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const TOP = join(import.meta.dirname, '../..');

/** Rows of the table under `## Layers`: folder and what it may import, words sorted. */
function documented(): Record<string, string[]> {
  const text = readFileSync(join(TOP, 'src/README.md'), 'utf8');
  const section = text.split('\n## Layers\n')[1]?.split('\n## ')[0] ?? '';
  const rows = [...section.matchAll(/^\| `([^`]+)` +\|[^|]*\|([^|]*)\|$/gm)];
  return Object.fromEntries(rows.map(([, folder, words = '']) => [folder, wordsOf(words)]));
}

/** The data of the test that enforces the table. */
function enforced(): Record<string, string[]> {
  const text = readFileSync(join(TOP, 'test/project/architecture.test.ts'), 'utf8');
  const object = /MAY_IMPORT[^=]*= \{\n(.*?)\n\};/s.exec(text)?.[1] ?? '';
  const rows = [...object.matchAll(/^ {2}'?([\w./-]+)'?: (\[[^\]]*\]|\w+),$/gm)];
  return Object.fromEntries(rows.map(([, folder, value = '']) => [folder, wordsOf(value.replace(/[[\]']/g, ''))]));
}

function wordsOf(text: string): string[] {
  const names: Readonly<Record<string, string>> = { everything: '*' };
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '' && word !== 'nothing')
    .map((word) => names[word] ?? word)
    .sort();
}

it('the table of src/README.md is the one that is enforced', () => {
  const table = enforced();
  expect(Object.keys(table).length).toBeGreaterThan(15);
  expect(documented()).toEqual(table);
});
