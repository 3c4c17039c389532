import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { isFinished, pullRequestKey, workItemKey } from '../../../src/model/item.ts';
import { externalIdOf, isAutomatic } from '../../../src/model/link.ts';
import { afterLookup, afterReport, type Binding, type NamedUnit } from '../../../src/model/names.ts';
import { formatStatus, parseStatus, statusOf } from '../../../src/model/notice.ts';
import {
  hasItemLine,
  itemLine,
  itemLinesIn,
  lastLine,
  taskName,
  withItemLine,
  withKey,
} from '../../../src/model/task.ts';
import { namedStatus, SPECIFIED_STATUSES, serverStatus } from '../../../src/model/task-status.ts';
import { cut } from '../../../src/model/text-limits.ts';
import { bare, workItem } from '../../support/rows/items.ts';

it.each([
  [{ taskId: 'tsk_1', key: 'BUG-1', title: 'Door' }, 'BUG-1'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: 'Door' }, '"Door" (tsk_1)'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: '' }, 'tsk_1'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: 'x'.repeat(99) }, `"${'x'.repeat(59)}…" (tsk_1)`],
])('names %j as %s', (task, name) => {
  expect(taskName(task)).toBe(name);
});

it.each([[undefined], [null], [''], [5]])('gives a task with the key %j its id as key', (key) => {
  expect(withKey({ taskId: 'tsk_1', key })).toEqual({ taskId: 'tsk_1', key: 'tsk_1' });
});

it('keeps a key, and returns other values unchanged', () => {
  expect(withKey({ taskId: 'tsk_1', key: 'BUG-1' })).toEqual({ taskId: 'tsk_1', key: 'BUG-1' });
  expect(withKey('tsk_1')).toBe('tsk_1');
});

const LINE = 'Source: https://example.com/1';

it('an item line names the address of the item, or its connector and name', () => {
  expect(itemLine({ url: 'https://example.com/1', connector: 'jira', identifier: 'ENG-1' })).toBe(LINE);
  expect(itemLine({ connector: 'jira', identifier: 'ENG-1' })).toBe('Source: jira ENG-1');
});

it('cuts the description, but never the item line', () => {
  const text = withItemLine('d'.repeat(100), LINE, 60);
  expect(text.length).toBeLessThanOrEqual(60);
  expect(lastLine(text)).toBe(LINE);
  expect(withItemLine('  ', LINE, 60)).toBe(LINE);
});

it.each<[what: string, text: string, lines: string]>([
  ['below the text', `A text.\n\n${LINE}`, LINE],
  ['above a text that a person added', `${LINE}\nMore.`, LINE],
  ['within markup', `<p>${LINE}</p>`, `${LINE}</p>`],
  ['twice', `${LINE}\n${LINE}2`, `${LINE}\n${LINE}2`],
  ['nowhere', 'A text.', ''],
])('finds item lines %s', (_what, text, lines) => {
  expect(itemLinesIn(text)).toBe(lines);
});

it.each<[text: string | null, isFound: boolean]>([
  [`A text.\n\n${LINE}`, true],
  [`<p>${LINE}</p>`, true],
  [`${LINE}2`, false],
  [`${LINE}/files`, false],
  [`${LINE}2\n${LINE}`, true],
  [null, false],
])('%j contains the item line: %s', (text, isFound) => {
  expect(hasItemLine(text, LINE)).toBe(isFound);
});

it('finds only a few short lines in a hostile text', () => {
  expect(itemLinesIn('Source: '.repeat(100_000)).length).toBeLessThan(20_000);
});

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

describe('cut', () => {
  it.each([
    ['abc', 3, 'abc'],
    ['abcd', 3, 'ab…'],
    ['abcd', 1, '…'],
    ['', 1, ''],
    ['🐛🐛', 3, '🐛…'],
    ['a🐛🐛', 3, 'a…'],
    ['🐛🐛', 2, '…'],
    ['👩‍👩‍👧‍👦 now', 8, '…'],
    ['🇩🇪🇫🇷', 6, '🇩🇪…'],
    ['👍🏽!', 3, '…'],
    [`e${'\u0301'.repeat(200)}`, 100, `e${'\u0301'.repeat(98)}…`],
  ])('cuts %j to %i', (text, longest, expected) => {
    expect(cut(text, longest)).toBe(expected);
  });

  it('keeps the length, splits no sign, and leaves short texts unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.integer({ min: 1, max: 40 }), (text, longest) => {
        const short = cut(text, longest);
        expect(short.length).toBeLessThanOrEqual(longest);
        expect(short.isWellFormed()).toBe(true);
        expect(short === text || text.startsWith(short.slice(0, -1))).toBe(true);
        expect(short === text).toBe(text.length <= longest || text === short);
        const signs = Array.from(graphemes.segment(text), ({ index }) => index);
        expect(short === text || signs.includes(short.length - 1)).toBe(true);
      }),
    );
  });
});

describe('the status of a task', () => {
  const WORDS = { in_progress: 'InProgress', completed: 'Done', merged: 'Done' };

  test('translates each status to the word of the server and back', () => {
    expect(SPECIFIED_STATUSES.map((status) => serverStatus(WORDS, status))).toEqual([
      ...['open', 'planned', 'InProgress', 'review', 'blocked', 'Done', 'cancelled', 'Done', 'idea'],
    ]);
    expect(['InProgress', 'Done', 'open'].map((word) => namedStatus(WORDS, word))).toEqual([
      ...['in_progress', 'completed', 'open'],
    ]);
  });

  test('keeps words that stand for none of our statuses', () => {
    expect([namedStatus(WORDS, 'Waiting'), serverStatus(WORDS, 'Waiting')]).toEqual(['Waiting', 'Waiting']);
  });
});

describe('items and links', () => {
  it('keys of items are natural keys', () => {
    expect(pullRequestKey('github', 'github.com', '1296269', '1347')).toBe('github:github.com:1296269:pull:1347');
    expect(workItemKey('jira', 'a1b2', '10023')).toBe('jira:a1b2:issue:10023');
  });

  it.each([
    [undefined, false],
    ['open', false],
    ['closed', true],
    ['merged', true],
    ['declined', true],
  ] as const)('a pull request that is %s is finished: %s', (state, expected) => {
    expect(isFinished(bare(1, { state }))).toBe(expected);
  });

  it.each([
    [undefined, false],
    ['open', false],
    ['in_progress', false],
    ['done', true],
  ] as const)('a work item that is %s is finished: %s', (state, expected) => {
    expect(isFinished(workItem({ state }))).toBe(expected);
  });

  it('distinguishes links that worksync created from links of people', () => {
    expect(isAutomatic(externalIdOf('github:github.com:1:pull:2'))).toBe(true);
    for (const other of [null, undefined, '', 'jira:1', 'Worksync:1', ' worksync:1']) {
      expect(isAutomatic(other)).toBe(false);
    }
  });
});

describe('a commit status', () => {
  const SHA = 'a1b2c3d4'.repeat(5);

  it.each([
    [['BUG-12'], false, 'success', 'linked to BUG-12'],
    [['BUG-12', 'IDEA-3'], true, 'success', 'linked to BUG-12, IDEA-3'],
    [[], false, 'success', 'linked to no task'],
    [[], true, 'failure', 'linked to no task: put the key of one into title, description or branch'],
  ] as const)('is stored and restored for %j, required: %s', (tasks, isRequired, state, text) => {
    const status = statusOf(SHA, tasks, isRequired);
    expect(status).toEqual({ sha: SHA, state, text });
    expect(parseStatus(formatStatus(status!))).toEqual(status);
  });

  it('has at most 140 characters, however many tasks there are', () => {
    const tasks = Array.from({ length: 50 }, (_, number) => `BUG-${number}`);
    expect(statusOf(SHA, tasks, true)?.text).toBe('linked to 50 tasks, BUG-0 among them');
  });

  it.each([undefined, '', 'main', '../../x', `${SHA}\n`, 'abc'])('there is no status for the head %j', (head) => {
    expect(statusOf(head, ['BUG-12'], true)).toBeUndefined();
  });

  it.each([null, '', 'closed', 'Linked to BUG-1.'])('%j is not a stored status', (line) => {
    expect(parseStatus(line)).toBeUndefined();
  });
});

describe('the binding of a name', () => {
  const API: Binding = { entry: 'acme/api', id: '1', called: 'acme/api' };
  const RENAMED: Binding = { ...API, called: 'acme/core' };
  const REBOUND: Binding = { ...API, elsewhere: '2' };
  const unit = (id: string, name: string): NamedUnit => ({ id, name });

  describe('a delivery', () => {
    it.each<[string, Binding | undefined, NamedUnit, Binding | undefined]>([
      ['binds a name', undefined, unit('1', 'Acme/API'), { ...API, called: 'Acme/API' }],
      ['with another name binds nothing', undefined, unit('1', 'acme/web'), undefined],
      ['shows a rename', API, unit('1', 'acme/core'), RENAMED],
      ['shows the rename back', RENAMED, unit('1', 'acme/api'), API],
      ['shows that another thing has the name', API, unit('2', 'acme/api'), REBOUND],
      ['shows that a third thing has the name', REBOUND, unit('3', 'acme/api'), { ...API, elsewhere: '3' }],
      // The delivery may be late: only the vendor's answer ends this.
      ['does not end a rebound name', REBOUND, unit('1', 'acme/api'), REBOUND],
      ['about another thing changes nothing', API, unit('2', 'acme/core'), API],
    ])('%s', (_, binding, reported, after) => {
      expect(afterReport('acme/api', binding, reported)).toEqual(after);
    });

    it('returns the same object if nothing is new', () => {
      expect(afterReport('acme/api', REBOUND, unit('2', 'acme/api'))).toBe(REBOUND);
      expect(afterReport('acme/api', API, unit('1', 'acme/api'))).toBe(API);
    });
  });

  describe('an answer to a lookup', () => {
    it.each<[string, Binding | undefined, NamedUnit | undefined, Binding | undefined]>([
      ['binds a name', undefined, unit('1', 'acme/api'), API],
      ['binds a thing that is found by an older name', undefined, unit('1', 'acme/core'), RENAMED],
      ['without a thing binds nothing', undefined, undefined, undefined],
      ['shows a rename', API, unit('1', 'acme/core'), RENAMED],
      ['shows that another thing has the name', API, unit('2', 'acme/api'), REBOUND],
      ['ends a rebound name when the bound thing has it again', REBOUND, unit('1', 'acme/api'), API],
      ['ends a rebound name when no thing has it', REBOUND, undefined, API],
    ])('%s', (_, binding, found, after) => {
      expect(afterLookup('acme/api', binding, found)).toEqual(after);
    });
  });
});
