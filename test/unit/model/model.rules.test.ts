import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { entity, settlement } from '../../../src/model/change.ts';
import { isFinished, pullRequestKey, workItemKey } from '../../../src/model/item.ts';
import { debounceOf, dueAfter, LANES } from '../../../src/model/lane.ts';
import { externalIdOf, isAutomatic } from '../../../src/model/link.ts';
import { cut } from '../../../src/model/text-limits.ts';
import { bare, workItem } from '../../support/items.ts';

describe('the patience with a change', () => {
  it('is none with what somebody waits for, and a minute with reads', () => {
    for (const used of [-1, 0, 0.5, 1, 2]) {
      expect(debounceOf('interactive', used)).toEqual({ wait: 0, maxWait: 0 });
      expect(debounceOf('read', used)).toEqual({ wait: 60_000, maxWait: 60_000 });
    }
  });

  it.each(['triage', 'link', 'mirror'] as const)('%s: seconds, more of them with the used share', (lane) => {
    const all = [-1, 0, 0.5, 1, 7].map((used) => debounceOf(lane, used));
    expect(all.map(({ wait }) => wait)).toEqual([2_400, 2_400, 3_900, 8_400, 8_400]);
    expect(all.map(({ maxWait }) => maxWait)).toEqual([6_000, 6_000, 8_250, 15_000, 15_000]);
  });

  it('never shrinks while more is used', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(fc.constantFrom(...LANES), share, share, (lane, one, other) => {
        const [less, more] = [debounceOf(lane, Math.min(one, other)), debounceOf(lane, Math.max(one, other))];
        expect(more.wait).toBeGreaterThanOrEqual(less.wait);
        expect(more.maxWait).toBeGreaterThanOrEqual(less.maxWait);
      }),
    );
  });

  it('ends after the quiet, or when it has lasted long enough; a promise counts from the first event alone', () => {
    const usual = { wait: 2_000, maxWait: 6_000 };
    expect([0, 1_000, 3_999, 5_000, 60_000].map((last) => dueAfter(0, last, usual))).toEqual([
      2_000, 3_000, 5_999, 6_000, 6_000,
    ]);
    expect([0, 5_000, 59_000].map((last) => dueAfter(0, last, debounceOf('mirror', 1, 60_000)))).toEqual([
      59_500, 59_500, 59_500,
    ]);
  });
});

describe('cutting a text', () => {
  it.each([
    ['abc', 3, 'abc'],
    ['abcd', 3, 'ab…'],
    ['abcd', 1, '…'],
    ['', 1, ''],
    ['🐛🐛', 3, '🐛…'],
    ['a🐛🐛', 3, 'a…'],
    ['🐛🐛', 2, '…'],
  ])('%j to %i', (text, longest, expected) => {
    expect(cut(text, longest)).toBe(expected);
  });

  it('keeps to the length, splits no pair, keeps what fits', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.integer({ min: 1, max: 40 }), (text, longest) => {
        const short = cut(text, longest);
        expect(short.length).toBeLessThanOrEqual(longest);
        expect(short.isWellFormed()).toBe(true);
        expect(short === text || text.startsWith(short.slice(0, -1))).toBe(true);
        expect(short === text).toBe(text.length <= longest || text === short);
        expect(Math.min(text.length, longest) - short.length).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe('names', () => {
  it('are natural keys', () => {
    expect(pullRequestKey('github', 'github.com', '1296269', '1347')).toBe('github:github.com:1296269:pull:1347');
    expect(workItemKey('jira', 'a1b2', '10023')).toBe('jira:a1b2:issue:10023');
    expect(entity.pullRequest('github', '1', '2')).toBe('pull_request:github/1/2');
    expect(entity.link('item', 'task')).toBe('link:item>task');
    expect(entity.readLinks('task')).toBe('read:links:task');
  });

  it('of links tell ours from those of people', () => {
    expect(isAutomatic(externalIdOf('github:github.com:1:pull:2'))).toBe(true);
    for (const other of [null, undefined, '', 'jira:1', 'Worksync:1', ' worksync:1']) {
      expect(isAutomatic(other)).toBe(false);
    }
  });
});

describe('states', () => {
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

  it('only creating a task is settled by a list', () => {
    expect((['pull_request', 'link', 'task', 'read'] as const).map(settlement)).toEqual([
      'repeat',
      'repeat',
      'list',
      'repeat',
    ]);
  });
});
