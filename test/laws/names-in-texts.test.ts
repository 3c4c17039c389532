import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { grammar as azure } from '../../src/connectors/azure-boards/index.ts';
import { grammar as github } from '../../src/connectors/github/index.ts';
import { grammar as sentry } from '../../src/connectors/sentry/index.ts';
import { createLinkRules } from '../../src/sync/reconcile/link-rules/link-rules.ts';
import { drawn, holds } from '../support/harness/depth.ts';
import { pull } from '../support/rows/items.ts';

/** Whatever stands around a name, and whatever signs its own alphabet has, it is found where a text holds it. */

const rules = createLinkRules({
  trailers: ['Task'],
  links: [],
  addresses: ['https://work.example.com/app'],
  grammars: [
    { connector: 'github', host: 'github.com', grammar: github },
    { connector: 'azure-boards', host: 'dev.azure.com/acme', grammar: azure },
    { connector: 'sentry', host: 'sentry.io', grammar: sentry },
  ],
});

const namesIn = (parts: Parameters<typeof pull>[0]) =>
  rules
    .mentionsOf(pull({ url: 'https://github.com/acme/app/pull/1', ...parts }), { name: 'main', grammar: github })
    .map(({ name }) => name);

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-'.split('');
/** As the reference service makes them, and any other that its contract allows. */
const id = fc.oneof(
  fc.string({ unit: fc.constantFrom(...ALPHABET), minLength: 16, maxLength: 16 }).map((rest) => `tsk_${rest}`),
  fc
    .string({ unit: fc.constantFrom(...ALPHABET), minLength: 1, maxLength: 60 })
    .filter((text) => /[A-Za-z0-9]/.test(text)),
);

/** Marks around a name: equal on both sides, as in emphasis and brackets. */
const AROUND: readonly (readonly [string, string])[] = [
  ['', ''],
  ['_', '_'],
  ['*', '*'],
  ['**', '**'],
  ['__', '__'],
  ['~~', '~~'],
  ['(', ')'],
  ['[', ']'],
  ['<', '>'],
  ['"', '"'],
  ["'", "'"],
  ['“', '”'],
  ['„', '“'],
  ['«', '»'],
  ['「', '」'],
  ['（', '）'],
  ['_(', ')_'],
  ['**“', '”**'],
];
const BEFORE = ['', 'see ', 'See: ', 'line\n', '- ', '1. ', '见', '🐛 ', '— ', '> said\n\n'];
const AFTER = [
  '',
  ' and more',
  '\nmore',
  '.',
  ', more',
  ';',
  ': more',
  '!',
  '?',
  '?!',
  '...',
  '…',
  '。',
  '、また',
  '！',
  '?_',
  '._',
  '; ',
];

const setting = fc.record({
  before: fc.constantFrom(...BEFORE),
  around: fc.constantFrom(...AROUND),
  after: fc.constantFrom(...AFTER),
});

const inText = (
  { before, around: [open, close], after }: { before: string; around: readonly [string, string]; after: string },
  name: string,
) => `${before}${open}${name}${close}${after}`;

const runs = { numRuns: drawn(3_000) };

describe('a text', () => {
  it.each([
    ['a task', 'https://work.example.com/app/tasks/', 'id:'],
    ['a task in a parameter', 'https://work.example.com/app/board?task=', 'id:'],
    ['a document', 'https://work.example.com/app/documents/', 'doc:'],
  ])('that holds the address of %s names it', (_what, address, prefix) => {
    fc.assert(
      fc.property(id, setting, (taskId, around) => {
        // A key stands for the task with that key.
        fc.pre(!/^[A-Za-z][A-Za-z0-9]*-[1-9][0-9]{0,8}$/.test(taskId));
        expect(namesIn({ description: inText(around, address + taskId) })).toContain(prefix + taskId);
      }),
      runs,
    );
  });

  it('that holds several addresses names each, however they are parted', () => {
    const parted = fc.constantFrom(',', ', ', ';', '; ', ' ', '\n', ' and ', '、', ' | ', ') (');
    fc.assert(
      fc.property(fc.array(id, { minLength: 2, maxLength: 5 }), parted, (ids, between) => {
        fc.pre(ids.every((each) => !/^[A-Za-z][A-Za-z0-9]*-[1-9][0-9]{0,8}$/.test(each)));
        const text = ids.map((each) => `https://work.example.com/app/tasks/${each}`).join(between);
        expect(namesIn({ description: text })).toEqual(expect.arrayContaining(ids.map((each) => `id:${each}`)));
      }),
      runs,
    );
  });

  it('whose trailer holds the id of a task names it', () => {
    const quoted = fc.constantFrom(...AROUND.filter(([open]) => !open.includes('>')));
    const end = fc.constantFrom('', '.', ',', ';', '!', ', ENG-1');
    fc.assert(
      fc.property(id, quoted, end, (taskId, [open, close], after) => {
        fc.pre(taskId.includes('_'));
        expect(namesIn({ description: `A change.\n\nTask: ${open}${taskId}${close}${after}` })).toContain(
          `id:${taskId}`,
        );
      }),
      runs,
    );
  });

  it.each([
    ['a key', 'BUG-12', 'BUG-12'],
    ['a number', '#12', 'github:github.com:1#12'],
    ['a number elsewhere', 'acme/api#12', 'github:github.com:acme/api#12'],
    ['a number with a prefix', 'AB#12', 'AB#12'],
    ['a short id behind its word', 'fixes APP_WEB-1A', 'APP_WEB-1A'],
    ['the address of an item', 'https://tracker.example/items/a_b-1', 'url:tracker.example/items/a_b-1'],
    ['the address of an item that ends in a sign', 'https://tracker.example/items/a_', 'url:tracker.example/items/a_'],
  ])('that holds %s names it', (_what, written, name) => {
    holds(setting, 3_000, (around) => {
      // A word must stand right before a short id, and a letter before it would be part of it.
      fc.pre(!written.startsWith('fixes') || !around.before.endsWith('见'));
      expect(namesIn({ description: inText(around, written), repoId: '1' })).toContain(name);
    });
  });
});
