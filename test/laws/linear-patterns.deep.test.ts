import { globSync, readFileSync } from 'node:fs';
import { parseSync, Visitor } from 'oxc-parser';
import { analyse } from 'scslre';
import { expect, it } from 'vitest';

/**
 * Law: no pattern in the sources goes back over what it has read, so that its time grows with the length of the text. An analyser
 * reasons about the structure of each literal; steps over hostile texts are counted in `linear-cost.deep.test.ts`.
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
  'src/platform/lib/own-command.ts': 'the names of commands, of which none is the beginning of a longer match',
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

it('the sources are read', () => {
  expect(literals.length).toBeGreaterThan(200);
  expect([...makers].toSorted()).toEqual(Object.keys(MADE_WHILE_RUNNING).toSorted());
  const unused = Object.keys(ONLY_SHORT_TEXTS).filter((pattern) => !literals.some((each) => each.pattern === pattern));
  expect(unused).toEqual([]);
});

it('finds those that go back [A8]', () => {
  for (const pattern of [/[.]+$/, /\s*\n/, /(a|a)*b/, /a*a*b/, /^(\w+\s?)+$/])
    expect([pattern, analyse(pattern).reports.length > 0]).toEqual([pattern, true]);
});

it.each(
  Map.groupBy(literals, ({ file }) => file)
    .entries()
    .toArray(),
)('%s: no pattern goes back [A8]', (_file, found) => {
  const long = found.filter(({ pattern }) => !Object.hasOwn(ONLY_SHORT_TEXTS, pattern));
  const slow = long.filter(({ pattern, flags }) => analyse(new RegExp(pattern, flags)).reports.length > 0);
  expect(slow).toEqual([]);
});
