import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { escapePattern } from '../../src/platform/lib/text.ts';

const TOP = join(import.meta.dirname, '../..');
const LIST = 'src/words.md';
/** What is written is not rewritten, and the list itself must name what it forbids. */
const NOT_READ = [LIST, '.github/CHANGELOG.md'];
/** Everything with texts for people: messages, hints, help, pages, documents, comments. */
const FILES = [
  'README.md',
  ...['.github', 'config', 'src'].flatMap((folder) =>
    readdirSync(join(TOP, folder), { recursive: true, encoding: 'utf8' }).map((path) => `${folder}/${path}`),
  ),
].filter((path) => /\.(ts|md|ya?ml)$/.test(path) && !path.includes('/fixtures/') && !NOT_READ.includes(path));
const TEXTS = new Map(FILES.map((path) => [path, read(path)]));

interface Rule {
  readonly not: readonly string[];
  readonly except: readonly string[];
}

function read(path: string): string {
  return readFileSync(join(TOP, path), 'utf8');
}

function quoted(cell = ''): string[] {
  return Array.from(cell.matchAll(/`([^`]+)`/g), ([, phrase]) => phrase!);
}

/** Rows of the table whose head is `| not | use | right in |`. */
function rulesOf(page: string): Rule[] {
  const table = page.split(/^\| not +\| use +\| right in +\|\n.*\n/m)[1]?.split('\n\n')[0] ?? '';
  return table.split('\n').map((row) => {
    const [, not, , except] = row.split('|');
    return { not: quoted(not), except: quoted(except) };
  });
}

/** A phrase as it may stand in a text or a comment, in any case, and broken over two lines; not a method of that name. */
function patternOf(phrase: string): RegExp {
  const words = phrase.split(' ').map((word) => escapePattern(word));
  return new RegExp(String.raw`(?<![\w.])${words.join(String.raw`\s+(?:(?:\*|//|#)\s*)?`)}(?!\w|(?:\?\.?)?\()`, 'gi');
}

/** Places of what a rule forbids: `file:line: "phrase"`. */
function found({ not, except }: Rule, path: string, text: string): string[] {
  const right = except.flatMap((phrase) =>
    Array.from(text.matchAll(patternOf(phrase)), ({ index, 0: { length } }) => [index, index + length] as const),
  );
  return not.flatMap((phrase) =>
    Array.from(text.matchAll(patternOf(phrase)), ({ index }) => index)
      .filter((index) => !right.some(([start, end]) => start <= index && index < end))
      .map((index) => `${path}:${text.slice(0, index).split('\n').length}: "${phrase}"`),
  );
}

const RULES = rulesOf(read(LIST));

describe('words that the list forbids', () => {
  it('are found over line breaks and in any case, and neither in other words nor where they are right', () => {
    const rule = { not: ['on the wire', 'learnt'], except: ['nothing is learnt'] };
    expect(found(rule, 'a', '/** Requests on the\n * wire. */')).toEqual(['a:1: "on the wire"']);
    expect(found(rule, 'a', '\nLearnt:')).toEqual(['a:2: "learnt"']);
    expect(found(rule, 'a', 'relearnt, learnt_at, and nothing is learnt of wires')).toEqual([]);
    expect(found(rule, 'a', 'learnt?(it): void; x.learnt?.(it); learnt(it)')).toEqual([]);
  });

  it('are listed in a table that can be read', () => {
    expect(RULES.length).toBeGreaterThan(15);
    expect(RULES.filter(({ not }) => not.length === 0)).toEqual([]);
  });

  it.each(RULES.map((rule) => [rule.not.join(', '), rule] as const))('are nowhere: %s', (_, rule) => {
    expect([...TEXTS].flatMap(([path, text]) => found(rule, path, text))).toEqual([]);
  });
});

describe('a heading', () => {
  it('names its subject: it neither asks nor begins like a riddle', () => {
    const headings = [...TEXTS].flatMap(([path, text]) =>
      Array.from(
        text.matchAll(path.endsWith('.md') ? /^#{1,6} (.*)$/gm : /<(?:h[1-6]|caption)>([^<]+)</g),
        ([, heading]) => `${path}: ${heading}`,
      ),
    );
    expect(headings.length).toBeGreaterThan(100);
    expect(headings.filter((heading) => /: (What (was|is|are|becomes)|Other .* than)\b|\?$/.test(heading))).toEqual([]);
  });
});

describe('the terms', () => {
  it('are each explained once, by a sentence', () => {
    const rows = [
      ...read(LIST)
        .split('## Use')[0]!
        .matchAll(/^\| ([^|]+?) +\| ([^|]+?) +\|$/gm),
    ].slice(2);
    const terms = rows.flatMap(([, term]) => term!.split(', '));
    expect(terms.length).toBeGreaterThan(30);
    expect(new Set(terms).size).toBe(terms.length);
    expect(rows.filter(([, , meaning]) => !/[.?]$/.test(meaning!))).toEqual([]);
  });
});
