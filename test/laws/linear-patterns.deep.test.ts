import { globSync, readFileSync } from 'node:fs';
import { type AST, RegExpParser } from '@eslint-community/regexpp';
import { parseSync, Visitor } from 'oxc-parser';
import { analyse } from 'scslre';
import { describe, expect, it } from 'vitest';
import { createMatcher } from '../support/cost/matcher.ts';

/**
 * Texts that a backtracking search for this pattern finds hard, of about the given length: parts of what it matches,
 * repeated, with what may stand before them and something behind that does not fit.
 */
function attacksOn({ source, flags }: RegExp, length: number): string[] {
  const pattern = new RegExpParser({ ecmaVersion: 2025 }).parsePattern(source, 0, source.length, {
    unicode: flags.includes('u'),
    unicodeSets: flags.includes('v'),
  });
  const parts = new Map<string, string>();
  collect(pattern.alternatives, '', parts);
  const attacks = new Set<string>();
  for (const [part, before] of parts) {
    const times = Math.ceil(length / part.length);
    for (const suffix of ['', '\0', '\n', 'x', ' ']) {
      attacks.add(part.repeat(times) + suffix);
      attacks.add(before + part.repeat(times) + suffix);
      attacks.add((before + part).repeat(Math.ceil(length / (before.length + part.length))) + suffix);
      attacks.add(before.repeat(Math.ceil(length / 2 / (before.length || length))) + part.repeat(times / 2) + suffix);
    }
  }
  return [...attacks].filter((text) => text.length <= length * 2);
}

/** Each part of the pattern as a text that it matches, with a text of what stands before it. */
function collect(alternatives: readonly AST.Alternative[], before: string, parts: Map<string, string>): void {
  for (const { elements } of alternatives) {
    let sofar = before;
    for (const element of elements) {
      const inner = element.type === 'Quantifier' ? element.element : element;
      if ('alternatives' in inner) collect(inner.alternatives, sofar, parts);
      for (const text of samples(element)) {
        if (text !== '' && !parts.has(text)) parts.set(text, sofar);
      }
      sofar += samples(element).at(-1) ?? '';
      if (sofar !== '' && !parts.has(sofar)) parts.set(sofar, '');
    }
  }
}

const CANDIDATES = Array.from(' \t\n#-./:;,!?()[]{}<>"\'`*_~|=+@%&$^\\aAzZ0159xé😀');

/** A few texts that the element matches, the shortest first. */
function samples(element: AST.Element): string[] {
  switch (element.type) {
    case 'Quantifier': {
      const [one = ''] = samples(element.element).filter((text) => text !== '');
      const most = Math.min(element.max, Math.max(element.min, 3));
      return element.min === 0 ? ['', one, one.repeat(most)] : [one.repeat(element.min), one.repeat(most)];
    }
    case 'Group':
    case 'CapturingGroup':
      return element.alternatives.map(({ elements }) => elements.map((each) => samples(each)[0] ?? '').join(''));
    case 'Character':
      return [String.fromCodePoint(element.value)];
    case 'CharacterSet':
    case 'CharacterClass':
    case 'ExpressionCharacterClass': {
      const native = new RegExp(`^(?:${element.raw})$`, 'v'.includes(element.type) ? 'v' : 'u');
      return CANDIDATES.filter((each) => native.test(each)).slice(0, 4);
    }
    default:
      return [''];
  }
}

/**
 * Law: no pattern in the sources goes back over what it has read, so that its time grows with the length of the text. Each
 * literal is looked at twice: by an analyser that reasons about its structure, and by counting the steps that a backtracking
 * search takes over texts made from the pattern itself.
 */

/** Patterns that would take more than linear time over a long text, and why they never see one. */
const ONLY_SHORT_TEXTS: Readonly<Record<string, string>> = {
  '^[\\])"\'*_]{0,3}[ \\t]*(?:,[ \\t]*(?:and|or|&)?|and|or|&|\\+)[ \\t]*\\n?[ \\t]*[[("\'*_]{0,3}$':
    'the gap between two names in a text: 24 characters at most (LONGEST_GAP in link-rules/scan.ts)',
};

/** Files that put patterns together while they run, and of what. */
const MADE_WHILE_RUNNING: Readonly<Record<string, string>> = {
  'src/cli/workspace/api.ts': 'patterns of the contract, which only read our own samples',
  'src/admin/installation/init.ts': 'the name of a variable, in a file that init wrote',
  'src/model/git-providers.ts': 'the names of the git providers, in a list',
  'src/connectors/github/items.ts': 'the escaped name of a repository at the start of a line',
  'src/platform/lib/own-program.ts': 'the names of commands, of which none is the beginning of a longer match',
  'src/sync/reconcile/link-rules/lookup-names.ts': "forms of connectors' addresses: each part ends at a slash",
  'src/sync/reconcile/link-rules/scan.ts': "words of connectors' grammars; counted in linear-cost.deep.test.ts",
  'src/reference-service/http/pipeline.ts': 'paths of the contract: each variable ends at a slash',
};

interface Literal {
  readonly file: string;
  readonly pattern: string;
  readonly flags: string;
}

const literals: Literal[] = [];
const makers = new Set<string>();

for (const file of globSync('src/**/*.ts').toSorted()) {
  const { program, errors } = parseSync(file, readFileSync(file, 'utf8'));
  if (errors.length > 0) throw new Error(`${file} cannot be parsed`);
  new Visitor({
    Literal(node) {
      if ('regex' in node) literals.push({ file, ...node.regex });
    },
    NewExpression: ({ callee }) => void (callee.type === 'Identifier' && callee.name === 'RegExp' && makers.add(file)),
    CallExpression: ({ callee }) => void (callee.type === 'Identifier' && callee.name === 'RegExp' && makers.add(file)),
  }).visit(program);
}

/** The square of it is far more than any loop with a bound takes. */
const LENGTH = 240;
const MOST_PER_CHARACTER = 40;
const MOST_MATCHES = 5_000;

/** Steps for each character of the hardest of the texts. */
function hardest(literal: RegExp): { readonly text: string; readonly cost: number } {
  const matcher = createMatcher(literal);
  const stepsOver = (text: string) => {
    const before = matcher.steps;
    for (let from = 0, matches = 0; from <= text.length && matches < MOST_MATCHES; matches++) {
      const found = matcher.find(text, from, false);
      if (!found || !literal.global) break;
      from = Math.max(found.end, found.start + 1);
    }
    return matcher.steps - before;
  };
  const costs = attacksOn(literal, LENGTH).map((text) => ({ text, cost: stepsOver(text) / text.length }));
  return costs.reduce((worst, each) => (each.cost > worst.cost ? each : worst), { text: '', cost: 0 });
}

it('the sources are read', () => {
  expect(literals.length).toBeGreaterThan(200);
  expect([...makers].toSorted()).toEqual(Object.keys(MADE_WHILE_RUNNING).toSorted());
  const unused = Object.keys(ONLY_SHORT_TEXTS).filter((pattern) => !literals.some((each) => each.pattern === pattern));
  expect(unused).toEqual([]);
});

it('finds those that go back [A8]', () => {
  for (const pattern of [/[.]+$/, /\s*\n/, /(a|a)*b/, /a*a*b/, /^(\w+\s?)+$/, /["a][^x]*x/]) {
    const isFound = analyse(pattern).reports.length > 0 || hardest(pattern).cost >= MOST_PER_CHARACTER;
    expect({ pattern, isFound }).toEqual({ pattern, isFound: true });
  }
});

describe.each(
  Map.groupBy(literals, ({ file }) => file)
    .entries()
    .toArray(),
)('%s', (_file, found) => {
  const long = found.filter(({ pattern }) => !Object.hasOwn(ONLY_SHORT_TEXTS, pattern));

  it.each(long.map(({ pattern, flags }) => [`/${pattern}/${flags}`, pattern, flags]))('%s', (_, pattern, flags) => {
    const literal = new RegExp(pattern, flags);
    expect(
      analyse(literal).reports.map(({ type, character }) => ({ type, character: String(character.pick) })),
    ).toEqual([]);
    const { text, cost } = hardest(literal);
    expect(cost < MOST_PER_CHARACTER ? '' : `${cost}: ${text.slice(0, 80)}`).toBe('');
  });
});
