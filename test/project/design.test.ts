import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { escapePattern } from '../../src/platform/lib/text.ts';

const TOP = join(import.meta.dirname, '../..');
const README = read('src/README.md');
const TOPICS = readdirSync(join(TOP, 'src/decisions'));
const FILES = ['src', 'test', 'config', '.ci'].flatMap((folder) =>
  readdirSync(join(TOP, folder), { recursive: true, encoding: 'utf8' }).map((path) => `/${folder}/${path}`),
);
const SOURCES = FILES.filter((path) => path.startsWith('/src/') && path.endsWith('.ts')).map(
  (path) => [path.slice(1), read(path)] as const,
);

function read(path: string): string {
  return readFileSync(join(TOP, path), 'utf8');
}

function wordsOf(text: string): number {
  return text.split(/\s+/).filter(Boolean).length;
}

/** Paths in backquotes, such as `sync/quota/limits.ts`. */
function namedFiles(text: string): string[] {
  return Array.from(text.matchAll(/`([\w./-]+\.(?:ts|md))`/g), ([, path]) => path!);
}

describe('the design documents', () => {
  it('are short: src/README.md has at most 1 500 words, each topic at most 700', () => {
    expect(wordsOf(README)).toBeLessThanOrEqual(1_500);
    expect(TOPICS.filter((topic) => wordsOf(read(`src/decisions/${topic}`)) > 700)).toEqual([]);
  });

  it('name existing files below src', () => {
    const texts = [README, ...TOPICS.map((topic) => read(`src/decisions/${topic}`))];
    const missing = texts
      .flatMap(namedFiles)
      .filter((path) => !existsSync(join(TOP, 'src', path)) && !existsSync(join(TOP, path)));
    expect(missing).toEqual([]);
  });

  it.each(TOPICS)('decisions/%s is linked from src/README.md and named by the file that it explains', (topic) => {
    expect(README).toContain(`](decisions/${topic})`);
    expect(SOURCES.some(([, text]) => text.startsWith(`// Design: src/decisions/${topic}\n`))).toBe(true);
  });
});

describe('the table "To change X, edit Y"', () => {
  const section = README.split('\n## To change X, edit Y\n')[1]!.split('\n## ')[0]!;
  const rows = [...section.matchAll(/^\| (?!-|to change )([^|]+?) +\| ([^|]+?) +\|$/gm)];

  it('has 12 to 18 rows', () => {
    expect(rows.length).toBeGreaterThanOrEqual(12);
    expect(rows.length).toBeLessThanOrEqual(18);
  });

  it.each(rows.map(([, change, edit]) => [change!, edit!] as const))('%s: the files declare the symbols', (_, edit) => {
    const named = [...edit.matchAll(/`([\w./-]+\.ts)`: `(\w+)`/g)];
    const declares = (path: string, symbol: string) =>
      new RegExp(
        String.raw`\b(?:const|function|interface|type) (?:\{[^}]*\b)?${escapePattern(symbol)}\b|^ +${escapePattern(symbol)}:`,
        'm',
      ).test(read(`src/${path}`));
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter(([, path, symbol]) => !declares(path!, symbol!)).map(([text]) => text)).toEqual([]);
  });
});

describe('comments', () => {
  it('name existing files', () => {
    const isThere = (path: string) => FILES.some((file) => file.endsWith(`/${path}`));
    const missing = SOURCES.flatMap(([file, text]) =>
      text
        .split('\n')
        .filter((line) => /^\s*(?:\/\/|\/?\*)/.test(line))
        .flatMap(namedFiles)
        .filter((path) => !isThere(path))
        .map((path) => `${file}: ${path}`),
    );
    expect(missing).toEqual([]);
  });
});
