import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { grammar as github } from '../../../../src/connectors/github/index.ts';
import { grammar as gitlab } from '../../../../src/connectors/gitlab/index.ts';
import type { Grammar, Intent, Item } from '../../../../src/model/item.ts';
import { patternText } from '../../../../src/platform/lib/pattern.ts';
import { PLAIN_RULES } from '../../../../src/sync/reconcile/context.ts';
import { createLinkRules, type LinkRulesInput, proseOf } from '../../../../src/sync/reconcile/link-rules/link-rules.ts';
import {
  formerNamesOf,
  namesOfItem,
  normalUrl,
  placedNamesOf,
} from '../../../../src/sync/reconcile/link-rules/lookup-names.ts';
import { intentOf, PLAIN_GRAMMAR } from '../../../../src/sync/reconcile/link-rules/scan.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

/** Like Linear: one keyword covers a list, and some words suppress a name. */
const LISTING: Grammar = {
  closing: ['fixes', 'closes', 'linear issue'],
  mentioning: ['part of', 'refs'],
  suppressing: ['skip', 'ignore'],
  closes: 'list',
  names: ['key'],
  addresses: [['//linear.app/{workspace}/issue/{key}', '//linear.app/{workspace}/issue/{key}/{title}']],
};
/** Like Redmine: numbers are unique on the host, and count only behind a keyword. */
const COUNTING: Grammar = {
  closing: ['closes'],
  mentioning: ['refs', 'references'],
  closes: 'list',
  names: ['host-number'],
  needsWord: true,
};
/** Like Azure Boards: a keyword closes only the first name of a list. */
const PREFIXED: Grammar = { closing: ['fix', 'fixes', 'fixed'], closes: 'next', names: ['AB#'] };
/** Like Sentry. */
const SHORT: Grammar = { closing: ['fixes'], closes: 'next', names: ['short-id'], needsWord: true };

const INPUT: LinkRulesInput = {
  trailers: ['Task', 'Refs'],
  links: [],
  addresses: ['https://work.example.com', 'https://boards.example.com/acme'],
  grammars: [
    { connector: 'github', host: 'github.com', grammar: github },
    { connector: 'linear', host: 'org', grammar: LISTING },
    { connector: 'redmine', host: 'redmine.example', grammar: COUNTING },
    { connector: 'azure', host: 'dev.azure', grammar: PREFIXED },
    { connector: 'sentry', host: 'sentry', grammar: SHORT },
  ],
};
const rules = createLinkRules(INPUT);
const READER = { name: 'main', grammar: github };
const PULL = { url: 'https://github.com/acme/app/pull/1' };

function inPlace(place: string, text: string) {
  if (place === 'title') return pull({ ...PULL, title: text });
  if (place === 'branch') return pull({ ...PULL, headBranch: text });
  if (place === 'commit') return pull({ ...PULL, commitMessages: [text] });
  return pull({ ...PULL, description: text });
}

const mentionsIn = (place: string, text: string, reader = READER) =>
  rules.mentionsOf(inPlace(place, text), reader).map(({ name, rule, place: where }) => `${where} ${rule} ${name}`);

describe('ids of tasks', () => {
  const named = (title: string, prefixes?: readonly string[]) =>
    rules.mentionsOf(inPlace('title', title), READER, prefixes).map(({ name }) => name);

  it('have the prefixes of the list of tasks', () => {
    const text = 'tsk_aB1, bug_7f and ini_3c';
    expect(named(text)).toEqual(['id:tsk_aB1']);
    expect(named(text, ['bug_', 'ini_'])).toEqual(['id:bug_7f', 'id:ini_3c']);
    expect(named(text, [])).toEqual([]);
  });

  it('are searched again after the prefixes changed', () => {
    const item = inPlace('title', 'tsk_aB1 and bug_7f');
    expect(rules.mentionsOf(item, READER, ['tsk_'])).toHaveLength(1);
    expect(rules.mentionsOf(item, READER, ['bug_', 'tsk_'])).toHaveLength(2);
  });
});

describe('the mentions', () => {
  const byUrl = (name: string) => `description item-url ${name}`;
  const byNumber = (name: string) => `description item-number ${name}`;

  it.each<[place: string, text: string, mentions: string[]]>([
    // Keys.
    ['branch', 'ada/4u-41-door', ['branch task-key 4U-41']],
    ['description', 'since 2026-07, call 555-1234', []],
    // A package and its version.
    ['branch', 'dependabot/npm_and_yarn/bug-1.2.3', []],
    ['description', 'Fixes BUG-12. 3 others wait.', ['description task-key BUG-12']],
    // Addresses of the workspace.
    ['description', 'https://work.example.com/tasks/bug-12?tab=1#c', ['description task-url BUG-12']],
    ['title', 'see https://work.example.com/api/v1/tasks/tsk_aB1/work-items', ['title task-url id:tsk_aB1']],
    ['description', 'https://boards.example.com/other/BUG-12', [byUrl('url:boards.example.com/other/BUG-12')]],
    [
      'description',
      'https://evil.example/work.example.com/tasks/BUG-12',
      [byUrl('url:evil.example/work.example.com/tasks/BUG-12')],
    ],
    ['description', 'https://work.example.com@evil.example/tasks/BUG-12', [byUrl('url:evil.example/tasks/BUG-12')]],
    // Ids of tasks.
    ['title', 'atsk_aB1x, tsk_, tsk_aB1xé and TSK_AB1X', []],
    ['description', '`tsk_aB1x` in code', []],
    ['title', 'https://boards.example.com/acme/open/tsk_aB1x?tab=2', ['title task-url id:tsk_aB1x']],
    // Trailers.
    ['description', 'Text\n\nTask: bug-12', ['trailer trailer BUG-12']],
    ['commit', 'Fix it\n\nTask: bug-12\nSigned-off-by: M <m@x>\n', ['trailer trailer BUG-12']],
    ['description', 'Task: bug-12\n\nMore text', []],
    // Items of trackers.
    ['description', 'https://github.com/issues/12', [byUrl('url:github.com/issues/12')]],
    ['description', 'Fixes #12', [byNumber('github:github.com:5001#12'), byNumber('redmine:redmine.example#12')]],
    [
      'description',
      'https://github.com/acme/lib/issues/12#note',
      [byUrl('url:github.com/acme/lib/issues/12'), byUrl('github:github.com:acme/lib#12')],
    ],
    ['description', 'Fixes BACKEND-1A', ['description item-key BACKEND-1A']],
    // Similar forms that are no names.
    ['description', '#0, #012, a#12, #12x, ##12, &#39; v1.2#', []],
    // Text that is not the author's own prose.
    ['description', '~~~ts\nBUG-12\n```\nBUG-13\n~~~\nBUG-14', ['description task-key BUG-14']],
    ['description', '`BUG-12` and ``a ` BUG-13`` and `open BUG-14', ['description task-key BUG-14']],
    ['description', '<!-- Fixes BUG-12 -->BUG-13', ['description task-key BUG-13']],
    ['description', '<pre>BUG-12 <code>BUG-13</code></pre> BUG-14', ['description task-key BUG-14']],
    ['description', '<blockquote><blockquote>BUG-12</blockquote>BUG-13</blockquote>', []],
  ])('in the %s %j', (place, text, names) => {
    expect(mentionsIn(place, text)).toEqual(names);
  });

  it('include items of trackers only in pull requests', () => {
    const item = workItem({ description: 'Fixes #12, AB#3, BUG-1, https://github.com/acme/lib/issues/12' });
    expect(rules.mentionsOf(item, READER).map(({ name }) => name)).toEqual(['BUG-1']);
  });

  it('include the number at the start of a branch name if the vendor creates such branches', () => {
    const item = pull({ headBranch: '12-door', title: 'Door' });
    expect(rules.mentionsOf(item, { name: 'main', grammar: gitlab }).map(({ name }) => name)).toEqual([
      'github:github.com:5001#12',
    ]);
    expect(rules.mentionsOf(item, READER)).toEqual([]);
  });
});

const BROWSE = 'https://a.example/browse/ENG-1';

describe('the intent', () => {
  const own = (number: number) => `github:github.com:5001#${number}`;

  const grammars = { github, gitlab, listing: LISTING, counting: COUNTING, prefixed: PREFIXED, short: SHORT };
  const wide = createLinkRules({
    ...INPUT,
    grammars: [...INPUT.grammars, { connector: 'gitlab', host: 'gitlab.com', grammar: gitlab }],
  });

  it.each<[grammar: keyof typeof grammars, text: string, names: string[], intents: (Intent | undefined)[]]>([
    ['github', 'Fixes #1', [own(1)], ['closes']],
    ['github', 'Resolves #1, #2 and #3', [own(1), own(2), own(3)], ['closes', 'mentions', 'mentions']],
    ['github', 'prefixes #1', [own(1)], ['mentions']],
    ['github', 'Fixes [#1](https://github.com/acme/app/issues/1)', [own(1)], ['closes']],
    ['gitlab', 'Closes #1, #2 and #3', [own(1), own(2), own(3)], ['closes', 'closes', 'closes']],
    ['listing', 'Fixes ENG-1, DES-5 and ENG-6', ['ENG-1', 'DES-5', 'ENG-6'], ['closes', 'closes', 'closes']],
    ['listing', 'Part of ENG-1', ['ENG-1'], ['mentions']],
    ['listing', 'ENG-1\n\nskip ENG-1', ['ENG-1'], [undefined]],
    ['prefixed', 'Fixes AB#1, AB#2', ['AB#1', 'AB#2'], ['closes', 'mentions']],
    ['counting', 'refs #1, #2', ['redmine:redmine.example#1', 'redmine:redmine.example#2'], ['mentions', 'mentions']],
    ['short', 'BACKEND-12', ['BACKEND-12'], [undefined]],
    // The names of a list share its keyword, and so do the text and the address of a link.
    ['listing', 'Fixes ENG-1; ENG-2', ['ENG-1', 'ENG-2'], ['closes', 'mentions']],
    ['listing', `Fixes ENG-1,${' '.repeat(23)}ENG-2`, ['ENG-1', 'ENG-2'], ['closes', 'closes']],
    ['listing', `Fixes ENG-1,${' '.repeat(24)}ENG-2`, ['ENG-1', 'ENG-2'], ['closes', 'mentions']],
    ['listing', `Fixes [ENG-1](${BROWSE})`, ['ENG-1', `url:${BROWSE.slice(8)}`], ['closes', 'closes']],
    ['listing', `[ENG-1](${BROWSE})`, ['ENG-1', `url:${BROWSE.slice(8)}`], ['mentions', 'mentions']],
  ])('%s: %j', (grammar, text, names, expected) => {
    const mentions = wide.mentionsOf(inPlace('description', text), READER);
    const found = names.map((name) => {
      const mention = mentions.find((each) => each.name === name);
      return mention === undefined ? 'not found' : intentOf(grammars[grammar], mention.words);
    });
    expect(found).toEqual(expected);
  });
});

describe('configured patterns', () => {
  const named = (links: LinkRulesInput['links'], item: Parameters<typeof rules.mentionsOf>[0], connection = 'main') =>
    createLinkRules({ ...INPUT, links })
      .mentionsOf(item, { ...READER, name: connection })
      .map(({ name, rule, place, text }) => `${place} ${rule} ${name} ${text}`);
  const pattern = (text: string) => patternText(text);

  it('name tasks by their groups', () => {
    const links = [{ pattern: pattern('(?i)ticket (\\w+)/(\\d+)'), task: '$1-$2' }];
    expect(named(links, pull({ title: 'Ticket bug/7' }))).toEqual(['title pattern 1 BUG-7 Ticket bug/7']);
  });

  it('search only the configured connections and places', () => {
    const links = [{ pattern: pattern('T(\\d+)'), task: 'BUG-$1', place: ['branch'], connection: ['ma*'] }];
    expect(named(links, pull({ headBranch: 'T7', title: 'T8' }))).toEqual(['branch pattern 1 BUG-7 T7']);
    expect(named(links, pull({ headBranch: 'T7', title: 'T8' }), 'other')).toEqual([]);
  });

  it('skip code, and names that cannot be tasks', () => {
    const links = [{ pattern: pattern('T(\\d*)'), task: '$1' }];
    expect(named(links, pull({ title: 'T', description: '`T7`' }))).toEqual([]);
  });
});

const plainMentions = (item: Item) => PLAIN_RULES.links.mentionsOf(item, { name: 'main' });
const keysOf = (item: Item) => plainMentions(item).map(({ name }) => name);

it.each<[place: 'title' | 'headBranch', text: string, keys: string[]]>([
  // Usual forms.
  // An address names a thing at its host, and this host is not the workspace's.
  ['title', 'https://tasks.example/BUG-12?tab=1', ['url:tasks.example/BUG-12']],
  // Several, repeated.
  ['title', 'BUG-12..BUG-15', ['BUG-12', 'BUG-15']],
  // Letters or digits on either side.
  ['title', 'BUG-12-3', ['BUG-12']],
  ['title', 'äBUG-12', []],
  // Not a key.
  ['title', 'bug-12', []],
  ['title', 'BUG-1234567890', []],
  ['title', '2023-04-11-245', []],
  // Keys by their form. Comparison with the cached keys shows that they are no tasks.
  ['title', 'UTF-8 everywhere', ['UTF-8']],
  // Branch names are read in any case.
  ['headBranch', 'user/bug-12-title', ['BUG-12']],
  ['headBranch', 'bug-12.1', []],
  ['headBranch', 'bug-12-idea-7', ['BUG-12', 'IDEA-7']],
  // Only ASCII letters are folded.
  ['headBranch', 'ıdea-7', []],
])('the %s %j contains the keys %j', (place, text, keys) => {
  expect(keysOf(pull({ [place]: text }))).toEqual(keys);
});

describe('a mention', () => {
  it('has the first place and the original text', () => {
    expect(plainMentions(pull({ headBranch: 'mona/bug-12-door', title: 'BUG-12: IDEA-7' }))).toEqual([
      { name: 'BUG-12', rule: 'task-key', place: 'branch', text: 'bug-12', words: [] },
      { name: 'IDEA-7', rule: 'task-key', place: 'title', text: 'IDEA-7', words: [] },
    ]);
  });

  it('is not read from the base branch', () => {
    expect(keysOf(pull({ baseBranch: 'bug-12' }))).toEqual([]);
  });

  it('is read from the title of a work item', () => {
    expect(keysOf(workItem({ title: 'As BUG-12', identifier: 'ENG-1' }))).toEqual(['BUG-12']);
  });
});

describe('hostile texts', () => {
  const names = (count: number) => Array.from({ length: count }, (_, index) => `BUG-${index + 1}`);

  it('are read up to 50 names', () => {
    const found = keysOf(pull({ headBranch: names(30).join('/'), title: names(80).join(' ') }));
    expect(found).toEqual(names(50));
  });
});

const LONGEST_URL = `https://a.example/${'x'.repeat(2_048 - 18)}`;

it.each<[text: string, normal: string | undefined]>([
  ['https://A.example/b/?q=1#c', 'a.example/b'],
  ['http://T.example:80/a/?q=1#x', 't.example/a'],
  ['ftp://a.example/b', undefined],
  [LONGEST_URL, LONGEST_URL.slice(8)],
  [`${LONGEST_URL}x`, undefined],
])('the address %j is looked up as %j', (text, normal) => {
  expect(normalUrl(text)).toBe(normal);
});

const namesBy = (form: string, fields: Parameters<typeof workItem>[0] = {}) =>
  namesOfItem(workItem({ containerId: '10', containerName: 'Web', ...fields }), {
    ...PLAIN_GRAMMAR,
    names: [form as 'key'],
  });

it.each<[form: string, identifier: string, expected: string[]]>([
  ['key', 'eng-1', ['ENG-1']],
  ['key', '#1', []],
  ['short-id', 'Web_A-1B', ['WEB_A-1B']],
  ['number', '#12', ['jira:cloud-1:10#12', 'jira:cloud-1:web#12']],
  ['host-number', '12', ['jira:cloud-1#12']],
  ['AB#', '12', ['AB#12']],
])('the form %j names the work item %j as %j', (form, identifier, expected) => {
  expect(namesBy(form, { identifier })).toEqual(expected);
});

it('a former identifier gives a former key and a former address', () => {
  const moved = workItem({ identifier: 'OPS-3', formerIdentifiers: ['ENG-1'], url: 'https://a.example/browse/OPS-3' });
  expect(formerNamesOf(moved, PLAIN_GRAMMAR)).toEqual(['url:a.example/browse/ENG-1', 'ENG-1']);
});

it('a name belongs to the place whose name it contains', () => {
  const item = workItem({
    containerId: '7',
    containerName: 'Acme/Web',
    identifier: '#5',
    url: 'https://a.example/acme/web/issues/5',
  });
  const grammar = { ...PLAIN_GRAMMAR, names: ['number' as const] };
  const place = `${item.connector}:${item.host}:acme/web`;
  expect(placedNamesOf(item, grammar)).toEqual([
    { name: 'url:a.example/acme/web/issues/5', place, container: '7' },
    { name: `${item.connector}:${item.host}:7#5`, place: null, container: null },
    { name: `${item.connector}:${item.host}:acme/web#5`, place, container: '7' },
  ]);
});

describe('any text', () => {
  const pieces = fc.constantFrom(
    ...['BUG-1', 'bug-2', '#12', 'a/b#3', 'AB#4', 'Fixes ', 'and ', ', ', '\n', '\n\n', '`', '```\n', '> '],
    ...['<!--', '-->', '<pre>', '</pre>', 'https://work.example.com/tasks/BUG-9'],
    ...['](', '[', 'Task: ', '修', '\ud83d', ' '],
  );

  it('keeps its length and its lines after the removal of code and quotes', () => {
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 60 }), (parts) => {
        const text = parts.join('');
        const prose = proseOf(text);
        expect(prose.length).toBe(text.length);
        expect(prose.split('\n').length).toBe(text.split('\n').length);
        expect(prose.split('').every((char, at) => char === ' ' || char === text.charAt(at))).toBe(true);
      }),
    );
  });
});
