import { inspect } from 'node:util';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { debounceOf, dueAfter } from '../../../src/model/change.ts';
import { mayBeCut } from '../../../src/model/delivery.ts';
import {
  asSyncError,
  CODES,
  cleanErrorsWith,
  formatFailure,
  parseFailure,
  SyncError,
} from '../../../src/model/errors.ts';
import { externalIdOf, isAutomatic, isFinished, pullRequestKey, workItemKey } from '../../../src/model/item.ts';
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
import {
  addCompletion,
  forgetBefore,
  leavesRoom,
  roomAt,
  usedAt,
  type WindowUse,
  windowOf,
} from '../../../src/model/windows.ts';
import { bare, workItem } from '../../support/rows/items.ts';

it.each([
  [{ taskId: 'tsk_1', key: 'BUG-1', title: 'Door' }, 'BUG-1'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: 'Door' }, '"Door" (tsk_1)'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: '' }, 'tsk_1'],
  [{ taskId: 'tsk_1', key: 'tsk_1', title: 'x'.repeat(99) }, `"${'x'.repeat(59)}…" (tsk_1)`],
])('names %j as %s', (task, name) => {
  expect(taskName(task)).toBe(name);
});

it('keeps the key of a task, gives its id as key to one without, and returns other values unchanged', () => {
  for (const [given, key] of [...[undefined, null, '', 5].map((each) => [each, 'tsk_1']), ['BUG-1', 'BUG-1']])
    expect(withKey({ taskId: 'tsk_1', key: given })).toEqual({ taskId: 'tsk_1', key });
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
    ['', 1, ''],
    ['🐛🐛', 3, '🐛…'],
    ['a🐛🐛', 3, 'a…'],
    ['🐛🐛', 2, '…'],
    ['👩‍👩‍👧‍👦 now', 8, '…'],
    ['🇩🇪🇫🇷', 6, '🇩🇪…'],
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

  it('pull requests that are closed, merged or declined are finished, and work items that are done', () => {
    const pulls = ([undefined, 'open', 'closed', 'merged', 'declined'] as const).map((state) => bare(1, { state }));
    expect(pulls.map(isFinished)).toEqual([false, false, true, true, true]);
    const items = ([undefined, 'open', 'in_progress', 'done'] as const).map((state) => workItem({ state }));
    expect(items.map(isFinished)).toEqual([false, false, false, true]);
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

describe('the debounce of a change', () => {
  it('is 0 in the interactive lane, and one minute for reads', () => {
    for (const used of [-1, 0, 0.5, 1, 2]) {
      expect(debounceOf('interactive', used)).toEqual({ wait: 0, maxWait: 0 });
      expect(debounceOf('read', used)).toEqual({ wait: 60_000, maxWait: 60_000 });
    }
  });

  it.each(['triage', 'link', 'mirror'] as const)(
    'is some seconds in the lane %s, and grows with the used share',
    (lane) => {
      const all = [-1, 0, 0.5, 1, 7].map((used) => debounceOf(lane, used));
      expect(all.map(({ wait }) => wait)).toEqual([2_400, 2_400, 3_900, 8_400, 8_400]);
      expect(all.map(({ maxWait }) => maxWait)).toEqual([6_000, 6_000, 8_250, 15_000, 15_000]);
    },
  );

  it('ends after `wait` or `maxWait`, and with a promised visibility counts from the first event', () => {
    const usual = { wait: 2_000, maxWait: 6_000 };
    expect([0, 1_000, 3_999, 5_000, 60_000].map((last) => dueAfter(0, last, usual))).toEqual([
      2_000, 3_000, 5_999, 6_000, 6_000,
    ]);
    expect([0, 5_000, 59_000].map((last) => dueAfter(0, last, debounceOf('mirror', 1, 60_000)))).toEqual([
      59_500, 59_500, 59_500,
    ]);
  });
});

describe('a window', () => {
  test('counts requests in flight and requests completed less than one hold ago', () => {
    const use: WindowUse = { inFlight: 2, completed: [10, 20, 30] };
    expect([29, 110, 120, 129, 130].map((now) => usedAt(use, 100, now))).toEqual([5, 4, 3, 3, 2]);
  });

  test('has room exactly if fewer requests than the limit count', () => {
    const times = fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 20 });
    const law = fc.property(
      times,
      fc.nat(5),
      fc.integer({ min: 1, max: 8 }),
      fc.nat(500),
      (at, inFlight, limit, now) => {
        const use: WindowUse = { inFlight, completed: at.toSorted((a, b) => a - b) };
        expect(roomAt(use, limit, 100) <= now).toBe(usedAt(use, 100, now) < limit);
      },
    );
    fc.assert(law);
  });

  test('is a little longer than at the server, because clocks differ and servers round', () => {
    expect(windowOf(200, 900_000)).toEqual({ cap: 200, hold: 900_451 });
    expect(windowOf(40, 60_000).hold).toBeCloseTo(60_031, 6);
  });

  test('completions stay sorted, in whatever order they are added', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(50)), fc.nat(50), (times, before) => {
        const completed: number[] = [];
        for (const at of times) addCompletion(completed, at);
        expect(completed).toEqual(times.toSorted((a, b) => a - b));
        forgetBefore(completed, before);
        expect(completed).toEqual(times.filter((at) => at >= before).toSorted((a, b) => a - b));
      }),
    );
  });
});

const HOLD = 900;
const useOf = (completed: number[], inFlight = 0): WindowUse => ({ completed, inFlight });
const filled = (completed: number[], slots = 10, inFlight = 0) => ({
  ...{ use: useOf(completed, inFlight), slots, hold: HOLD, now: 1_000 },
});
const upTo = (count: number) => Array.from({ length: count }, (_, at) => at + 1);

describe('leavesRoom', () => {
  test.each<[what: string, leaves: boolean, state: ReturnType<typeof filled>, expected: number, spare: number]>([
    ['no request is expected', true, filled([]), 0, 0],
    ['only the spare slot is free', false, filled(upTo(9).map(() => 900)), 0, 1],
    ['nearly all slots are expected to be used while one is taken', false, filled([950]), 10, 0],
    ['many requests are expected in an empty window', true, filled([]), 50, 3],
    ['the window is empty and has one slot', true, filled([], 1), 3, 0],
    ['one slot is left', true, filled([]), 9, 0],
    ['slots become free before they are needed', true, filled([110, 200, 300, 400], 10, 4), 4, 0],
    ['slots become free too late', false, filled([950, 960, 970, 980], 10, 4), 4, 0],
    ['requests in flight take their slots for a whole window', false, filled([], 5, 4), 1, 0],
    ['expired requests take no slots', true, filled(upTo(10)), 9, 0],
  ])('if %s: %s', (_what, leaves, state, expected, spare) => {
    expect(leavesRoom(state, { rate: expected / HOLD, spare })).toBe(leaves);
  });
});

it.each([
  [50, null, true],
  [1_000, null, true],
  [0, null, false],
  [49, null, false],
  [50, true, false],
  [50, false, false],
])('a list of %i with isLast %s may be cut: %s', (length, isLast, expected) => {
  expect(mayBeCut(length, isLast)).toBe(expected);
});

it('each code has a verdict, a remedy in a sentence, and an exit code that means failure', () => {
  for (const [code, { verdict, hint, ...entry }] of Object.entries(CODES)) {
    const exit = 'exit' in entry ? entry.exit : 1;
    expect({ code, verdict, hint, isFailure: exit > 0 && exit < 126 }).toEqual({
      code: expect.stringMatching(/^[a-z]+(_[a-z]+)*$/),
      verdict: expect.stringMatching(/^(?:retry|wait-until|never)$/),
      hint: expect.stringMatching(/^[A-Z][^\n]{10,}\.$/),
      isFailure: true,
    });
  }
});

describe('secrets', () => {
  const SECRET = 'a secret of the tests';
  beforeAll(() => cleanErrorsWith((text) => text.replaceAll(SECRET, '[secret]')));
  afterAll(() => cleanErrorsWith((text) => text));

  it('are replaced in all texts of an error, and in its stack', () => {
    const text = `said: ${SECRET}`;
    const error = new SyncError('refused', text, { hint: text, errorCode: text });
    expect(error).toMatchObject({ message: 'said: [secret]', hint: 'said: [secret]', errorCode: 'said: [secret]' });
    expect(inspect(error)).not.toContain(SECRET);
    expect(asSyncError(new TypeError(text)).message).toBe('said: [secret]');
    expect(asSyncError(text).message).toBe('said: [secret]');
  });

  it('are replaced in all causes, however deep', () => {
    const inner = Object.assign(new TypeError(SECRET), { code: 'ERR_INNER', headers: { authorization: SECRET } });
    const several = new AggregateError([new Error('harmless'), new RangeError(SECRET)], 'several', { cause: inner });
    const outer = new Error('outer', { cause: several });
    const { cause } = new SyncError('unreachable', 'x', { cause: outer });
    expect(inspect(cause, { depth: 20, showHidden: true })).not.toContain(SECRET);
    expect(cause).toMatchObject({
      message: 'outer',
      cause: { message: 'several', cause: { name: 'TypeError', code: 'ERR_INNER', message: '[secret]' } },
    });
    expect((cause as Error & { cause: AggregateError }).cause.errors).toMatchObject([
      { message: 'harmless' },
      { name: 'RangeError', message: '[secret]' },
    ]);
    let deep = new Error(SECRET);
    for (let level = 0; level < 20; level++) deep = new Error('level', { cause: deep });
    expect(inspect(new SyncError('internal', 'x', { cause: deep }), { depth: 50 })).not.toContain(SECRET);
    expect(new SyncError('internal', 'x', { cause: SECRET }).cause).toBe('[secret]');
  });

  it('leave a cause without secrets unchanged, even a cycle', () => {
    const cause = new Error('harmless', { cause: new Error('too') });
    expect(new SyncError('internal', 'x', { cause }).cause).toBe(cause);
    const loop = new Error('round');
    loop.cause = loop;
    expect(() => new SyncError('internal', 'x', { cause: loop })).not.toThrow();
  });
});

describe('a thrown value', () => {
  it('is returned unchanged if it is a SyncError', () => {
    const error = new SyncError('conflict', 'x');
    expect(asSyncError(error)).toBe(error);
  });

  it.each<[thrown: unknown, message: string]>([
    [new TypeError('x is no function'), 'x is no function'],
    ['a text', 'a text'],
    [undefined, 'undefined'],
    [null, 'null'],
    [7, '7'],
    [{ odd: true }, '{ odd: true }'],
    [Object.create(null), '[Object: null prototype] {}'],
    [Symbol('s'), 'Symbol(s)'],
  ])('%o is an internal error', (thrown, message) => {
    const error = asSyncError(thrown);
    expect(error).toMatchObject({ code: 'internal', verdict: 'retry', message });
    expect(error.cause).toBe(thrown);
  });
});

it('a stored failure keeps its remedy', () => {
  const plain = new SyncError('forbidden', 'status 403');
  expect(formatFailure(plain)).toBe('forbidden: status 403');
  for (const error of [plain, new SyncError('forbidden', 'two\nlines', { hint: 'Authorise the token.' })]) {
    const { code, message, hint } = error;
    expect(parseFailure(formatFailure(error))).toEqual({ code, message, hint });
  }
});

it.each(['no code at all', 'unheard_of: x', 'constructor: x'])('%j is parsed as an internal error', (text) => {
  expect(parseFailure(text)).toEqual({ code: 'internal', message: text, hint: null });
});
