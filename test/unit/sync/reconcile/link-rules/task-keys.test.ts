import { describe, expect, it } from 'vitest';
import type { Item } from '../../../../../src/model/item.ts';
import { PLAIN_RULES } from '../../../../../src/sync/reconcile/context.ts';
import { cpuTimeOf } from '../../../../support/cost/cpu-time.ts';
import { bare, pull, workItem } from '../../../../support/rows/items.ts';

const mentionsOf = (item: Item) => PLAIN_RULES.links.mentionsOf(item, { name: 'main' });
const keysOf = (item: Item) => mentionsOf(item).map(({ name }) => name);

describe('the keys in a title', () => {
  it.each<[title: string, keys: string[]]>([
    // Usual forms.
    ['BUG-12', ['BUG-12']],
    ['[BUG-12] Fix the door', ['BUG-12']],
    ['BUG-12: Fix the door', ['BUG-12']],
    ['BUG-12 Fix the door', ['BUG-12']],
    ['Fix the door (BUG-12)', ['BUG-12']],
    ['Fix the door, BUG-12', ['BUG-12']],
    ['Fix the door. BUG-12.', ['BUG-12']],
    ['Fixes #BUG-12', ['BUG-12']],
    ['fix-BUG-12', ['BUG-12']],
    ['feat(BUG-12): a door', ['BUG-12']],
    ['“BUG-12”', ['BUG-12']],
    ['BUG-12’s door', ['BUG-12']],
    // An address names a thing at its host, and this host is not the workspace's.
    ['https://tasks.example/BUG-12?tab=1', ['url:tasks.example/BUG-12']],
    ['BUG-12_door', ['BUG-12']],
    ['_BUG-12_', ['BUG-12']],
    ['BUG-12\tdoor\nIDEA-3', ['BUG-12', 'IDEA-3']],
    ['A1-5', ['A1-5']],
    ['A-1', ['A-1']],
    // Several, repeated.
    ['BUG-12/BUG-13', ['BUG-12', 'BUG-13']],
    ['BUG-12, BUG-13 and IDEA-7', ['BUG-12', 'BUG-13', 'IDEA-7']],
    ['BUG-12 BUG-12 BUG-12', ['BUG-12']],
    ['BUG-13 BUG-12', ['BUG-13', 'BUG-12']],
    ['BUG-12-BUG-13', ['BUG-12', 'BUG-13']],
    ['BUG-12..BUG-15', ['BUG-12', 'BUG-15']],
    // Letters or digits on either side.
    ['xBUG-12', []],
    ['9BUG-12', ['9BUG-12']],
    ['BUG-12x', []],
    ['BUG-12X', []],
    ['BUG-12-3', ['BUG-12']],
    ['BUG-12.1', []],
    ['äBUG-12', []],
    ['ÄBUG-12', []],
    ['жBUG-12', []],
    ['BUG-12é', []],
    ['BUG-12ß', []],
    ['BUG-12２', []],
    ['BUG-12٣', []],
    ['修复BUG-12的问题', ['BUG-12']],
    ['バグBUG-12を直す', ['BUG-12']],
    ['🐛BUG-12🐛', ['BUG-12']],
    ['👩‍💻 BUG-12', ['BUG-12']],
    // Not a key.
    ['', []],
    ['A change', []],
    ['bug-12', []],
    ['Bug-12', []],
    ['bUG-12', []],
    ['BUG 12', []],
    ['BUG_12', []],
    ['BUG–12', []],
    ['BUG‑12', []],
    ['BUG--12', []],
    ['BUG-', []],
    ['-12', []],
    ['BUG-0', []],
    ['BUG-012', []],
    ['BUG-1234567890', []],
    ['ＢＵＧ-12', []],
    ['BUG-１２', []],
    ['BUG－12', []],
    ['2023-04-11-245', []],
    ['1BUG-12', ['1BUG-12']],
    // Keys by their form. Comparison with the cached keys shows that they are no tasks.
    ['BUG-123456789', ['BUG-123456789']],
    ['UTF-8 everywhere', ['UTF-8']],
    ['SHA-256 instead of SHA-1', ['SHA-256', 'SHA-1']],
    ['ISO-8601', ['ISO-8601']],
    ['CVE-2026-1', ['CVE-2026']],
    ['COVID-19', ['COVID-19']],
    ['X-1 and BUG-2', ['X-1', 'BUG-2']],
  ])('%j', (title, keys) => {
    expect(keysOf(pull({ title }))).toEqual(keys);
  });
});

describe('the keys in a branch name', () => {
  it.each<[branch: string, keys: string[]]>([
    ['BUG-12', ['BUG-12']],
    ['bug-12', ['BUG-12']],
    ['Bug-12', ['BUG-12']],
    ['bug-12-door', ['BUG-12']],
    ['user/bug-12-title', ['BUG-12']],
    ['feature/BUG-12_x', ['BUG-12']],
    ['feature/bug-12/second-try', ['BUG-12']],
    ['fix-bug-12', ['BUG-12']],
    ['bug-12.1', []],
    ['bug-12-13', ['BUG-12']],
    ['bug-12-idea-7', ['BUG-12', 'IDEA-7']],
    ['release-2-bug-12', ['RELEASE-2', 'BUG-12']],
    ['bug12', []],
    ['bug_12', []],
    ['debug-12', ['DEBUG-12']],
    ['bug-012', []],
    ['bug-12a', []],
    ['main', []],
    ['dependabot/npm_and_yarn/acme-1.2.3', []],
    // Only ASCII letters are folded.
    ['ıdea-7', []],
    ['ﬁx-7', []],
    ['straße-7', []],
    ['ſ-7', []],
  ])('%j', (headBranch, keys) => {
    expect(keysOf(pull({ headBranch }))).toEqual(keys);
  });
});

describe('a mention', () => {
  it('has the first place and the original text', () => {
    expect(mentionsOf(pull({ headBranch: 'mona/bug-12-door', title: 'BUG-12: IDEA-7' }))).toEqual([
      { name: 'BUG-12', rule: 'task-key', place: 'branch', text: 'bug-12', words: [] },
      { name: 'IDEA-7', rule: 'task-key', place: 'title', text: 'IDEA-7', words: [] },
    ]);
  });

  it('has the right text behind letters without a single upper-case letter', () => {
    const [mention] = mentionsOf(pull({ headBranch: 'ßßß/ŉ/bug-12', title: '' }));
    expect(mention?.text).toBe('bug-12');
  });

  it('is not found in an absent text', () => {
    expect(mentionsOf(bare(1))).toEqual([]);
    expect(mentionsOf(bare(1, { title: '', headBranch: '' }))).toEqual([]);
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

  it('count each name once towards the 50', () => {
    expect(keysOf(pull({ headBranch: '', title: `${'BUG-1 '.repeat(500)}BUG-2` }))).toEqual(['BUG-1', 'BUG-2']);
  });

  const MEGABYTE = 1_000_000;
  const repeated = (text: string) => text.repeat(MEGABYTE / text.length);

  it.each([
    ['letters', repeated('A')],
    ['letters and digits', repeated('A1')],
    ['letters and hyphens', repeated('A-')],
    ['hyphens', repeated('-')],
    ['digits behind a hyphen', `A-${repeated('1')}`],
    ['keys that end in a letter', repeated('A-123456789x')],
    ['words that never get their number', repeated('AAAAAAAAA-0')],
    ['spaced words', repeated('A ')],
    ['keys glued together', repeated('A-1A-1')],
    ['surrogate halves', repeated('\ud83d')],
    ['emoji', repeated('🐛')],
  ])('a megabyte of %s is read in one pass', (_, text) => {
    let found = 0;
    expect(cpuTimeOf(() => (found = keysOf(pull({ headBranch: text, title: text })).length))).toBeLessThan(3_000);
    expect(found).toBeLessThanOrEqual(50);
  });
});
