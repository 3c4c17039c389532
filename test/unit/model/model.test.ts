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
import { hasItemLine, itemLinesIn, lastLine, withItemLine } from '../../../src/model/task.ts';
import { cut } from '../../../src/model/text-limits.ts';
import { leavesRoom, roomAt, usedAt, type WindowUse, windowOf } from '../../../src/model/windows.ts';
import { bare, workItem } from '../../support/rows/items.ts';

const LINE = 'Source: https://example.com/1';

it('cuts the description, but never the item line', () => {
  const text = withItemLine('d'.repeat(100), LINE, 60);
  expect(text.length).toBeLessThanOrEqual(60);
  expect(lastLine(text)).toBe(LINE);
  expect(withItemLine('  ', LINE, 60)).toBe(LINE);
});

it.each<[what: string, text: string, lines: string]>([
  ['below the text', `A text.\n\n${LINE}`, LINE],
  ['above a text that a person added', `${LINE}\nMore.`, LINE],
  ['twice', `${LINE}\n${LINE}2`, `${LINE}\n${LINE}2`],
])('finds item lines %s', (_what, text, lines) => {
  expect(itemLinesIn(text)).toBe(lines);
});

it.each<[text: string | null, isFound: boolean]>([
  [`A text.\n\n${LINE}`, true],
  [`<p>${LINE}</p>`, true],
  [`${LINE}2`, false],
  [`${LINE}/files`, false],
])('%j contains the item line: %s', (text, isFound) => {
  expect(hasItemLine(text, LINE)).toBe(isFound);
});

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

describe('cut', () => {
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
    [[], false, 'success', 'linked to no task'],
    [[], true, 'failure', 'linked to no task: put the key of one into title, description or branch'],
  ] as const)('is stored and restored for %j, required: %s', (tasks, isRequired, state, text) => {
    const status = statusOf(SHA, tasks, isRequired);
    expect(status).toEqual({ sha: SHA, state, text });
    expect(parseStatus(formatStatus(status!))).toEqual(status);
  });

  it.each([undefined, '', 'main', '../../x', `${SHA}\n`, 'abc'])('there is no status for the head %j', (head) => {
    expect(statusOf(head, ['BUG-12'], true)).toBeUndefined();
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

  it('is some seconds in the lane of links, and grows with the used share', () => {
    const all = [-1, 0, 0.5, 1, 7].map((used) => debounceOf('link', used));
    expect(all.map(({ wait }) => wait)).toEqual([2_400, 2_400, 3_900, 8_400, 8_400]);
    expect(all.map(({ maxWait }) => maxWait)).toEqual([6_000, 6_000, 8_250, 15_000, 15_000]);
  });

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
    ['many requests are expected in an empty window', true, filled([]), 50, 3],
    ['one slot is left', true, filled([]), 9, 0],
    ['slots become free before they are needed', true, filled([110, 200, 300, 400], 10, 4), 4, 0],
    ['slots become free too late', false, filled([950, 960, 970, 980], 10, 4), 4, 0],
    ['requests in flight take their slots for a whole window', false, filled([], 5, 4), 1, 0],
  ])('if %s: %s', (_what, leaves, state, expected, spare) => {
    expect(leavesRoom(state, { rate: expected / HOLD, spare })).toBe(leaves);
  });
});

it.each([
  [50, null, true],
  [1_000, null, true],
  [50, true, false],
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
});

describe('a thrown value', () => {
  it.each<[thrown: unknown, message: string]>([
    [new TypeError('x is no function'), 'x is no function'],
    [{ odd: true }, '{ odd: true }'],
    [Symbol('s'), 'Symbol(s)'],
  ])('%o is an internal error', (thrown, message) => {
    const error = asSyncError(thrown);
    expect(error).toMatchObject({ code: 'internal', verdict: 'retry', message });
    expect(error.cause).toBe(thrown);
  });

  it('of a file that this user may not write is no fault of worksync', () => {
    const thrown = Object.assign(new Error('EACCES: permission denied, open x'), { code: 'EACCES' });
    expect(asSyncError(thrown).code).toBe('data_folder_unusable');
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

it.each(['no code at all', 'constructor: x'])('%j is parsed as an internal error', (text) => {
  expect(parseFailure(text)).toEqual({ code: 'internal', message: text, hint: null });
});
