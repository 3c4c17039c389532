import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { escapePattern } from '../../src/platform/lib/text.ts';

const TOP = join(import.meta.dirname, '../..');
const LIST = 'src/words.md';
/** Not checked: the changelog is history, and the list itself must name what it forbids. */
const NOT_READ = [LIST, '.github/CHANGELOG.md', 'test/project/words.test.ts'];
/** Everything with texts for people: messages, hints, help, pages, documents, comments, and the tests. */
const FILES = [
  'README.md',
  ...['.github', 'config', 'src', 'test'].flatMap((folder) =>
    readdirSync(join(TOP, folder), { recursive: true, encoding: 'utf8' }).map((path) => `${folder}/${path}`),
  ),
].filter((path) => /\.(ts|md|ya?ml)$/.test(path) && !path.includes('/fixtures/') && !NOT_READ.includes(path));
const TEXTS = new Map(FILES.map((path) => [path, read(path)]));

/**
 * Folders that are not rewritten yet: doc comments with an opener of a riddle, and forbidden words in tests. Step by step these
 * numbers fall to zero; none may rise.
 */
const OPENERS: Readonly<Record<string, number>> = {
  'src/admin': 111,
  'src/cli': 34,
  'src/connectors': 78,
  'src/gateway': 12,
  'src/platform/config': 19,
  'src/platform/database': 29,
  'src/platform/http': 23,
  'src/platform/lib': 15,
  'src/platform/observe': 11,
  'src/reference-service': 37,
  'src/store': 1,
  'src/web': 53,
  'src/workspace-api': 11,
  'test/bench': 43,
  'test/browser': 5,
  'test/contracts': 25,
  'test/deep': 20,
  'test/faults': 11,
  'test/fuzz': 3,
  'test/laws': 19,
  'test/model': 18,
  'test/power': 7,
  'test/scenarios': 29,
  'test/sim': 95,
  'test/soak': 10,
  'test/unit': 15,
  'test/vitest.config.ts': 3,
};
const FORBIDDEN: Readonly<Record<string, number>> = {
  'test/contracts': 1,
  'test/laws': 2,
  'test/model': 1,
  'test/power': 2,
  'test/sim': 1,
  'test/unit': 5,
};

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
    const texts = [...TEXTS].filter(([path]) => !path.startsWith('test/'));
    expect(texts.flatMap(([path, text]) => found(rule, path, text))).toEqual([]);
  });

  it('become fewer in the tests', () => {
    const texts = [...TEXTS].filter(([path]) => path.startsWith('test/'));
    expect(countIn(texts, (path, text) => RULES.flatMap((rule) => found(rule, path, text)).length)).toEqual(FORBIDDEN);
  });
});

/** Sums a number of each file by folder; folders with none are left out. */
function countIn(texts: Iterable<[string, string]>, count: (path: string, text: string) => number) {
  const sums: Record<string, number> = {};
  for (const [path, text] of texts) {
    const found = count(path, text);
    const folder = FOLDER.exec(path)?.[0] ?? path;
    if (found > 0) sums[folder] = (sums[folder] ?? 0) + found;
  }
  return sums;
}

const FOLDER = /^(?:src\/(?:sync|platform|connectors\/(?=kit))\/?\w[\w-]*|\.?\w+\/[\w.-]+)/;

describe('a doc comment', () => {
  it('begins with a verb or a noun phrase, apart from folders that are not rewritten yet', () => {
    const openers = /\/\*\*\s*(?:\*\s*)?(?:What|Of|Those|The same|Whoever|Nobody|Somebody|Who)\b/g;
    expect(countIn(TEXTS, (_, text) => [...text.matchAll(openers)].length)).toEqual(OPENERS);
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
    expect(terms.length).toBeLessThanOrEqual(50);
    expect(new Set(terms).size).toBe(terms.length);
    expect(rows.filter(([, , meaning]) => !/[.?]$/.test(meaning!))).toEqual([]);
  });
});
