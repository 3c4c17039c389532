import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { htmlOfText, textOfHtml } from '../../src/connectors/azure-boards/html.ts';
import type { Connector } from '../../src/connectors/connector.ts';
import { adfOfText, textOfAdf } from '../../src/connectors/jira/adf.ts';
import { textOfTextile } from '../../src/connectors/redmine/textile.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { SyncError } from '../../src/errors/sync-error.ts';
import { parseJson } from '../../src/http/json.ts';
import { createGlob, createPattern, patternText } from '../../src/lib/pattern.ts';
import { createScrubber } from '../../src/observe/scrubber.ts';
import { createLinkRules } from '../../src/reconcile/link-rules/link-rules.ts';
import { normalUrl } from '../../src/reconcile/link-rules/names.ts';
import { PROFILES } from '../contracts/connectors/index.ts';
import { pull } from '../support/items.ts';
import { openStepCounter } from '../support/steps/count-steps.ts';

/**
 * Law: whatever a stranger writes, reading it takes time in proportion to its length. Steps are counted, not seconds, over
 * lengths up to the cap; each text is a few signs that mean something, repeated.
 */

/** What is fed with texts of strangers. */
const rules = createLinkRules({
  trailers: ['Task', 'Refs'],
  links: [{ pattern: patternText('(?:task|bug)[ _]?([0-9]+)'), task: 'BUG-$1' }],
  addresses: ['https://tasks.example/w/acme'],
  grammars: connectors.map(({ id, publicHost, grammar }) => ({ connector: id, host: publicHost, grammar })),
});
const reader = { connection: 'main', grammar: connectors.find(({ id }) => id === 'gitlab')?.grammar };
const scrubber = createScrubber(['a secret of the configuration', 'another-one-0123456789']);
const glob = createGlob('*a*b*c*');
const paragraph = (text: string) => ({ type: 'paragraph', content: [{ type: 'text', text }] });
const document = (...content: object[]) => ({ type: 'doc', version: 1, content });

const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  'Textile of Redmine': textOfTextile,
  'HTML of Azure Boards': textOfHtml,
  'HTML for Azure Boards': htmlOfText,
  'ADF of Jira': (text) =>
    textOfAdf(document(paragraph(text), { type: 'codeBlock', content: [{ type: 'text', text }] })),
  'ADF of Jira, in a table': (text) =>
    textOfAdf(
      document({
        type: 'table',
        content: [{ type: 'tableRow', content: [{ type: 'tableCell', content: [paragraph(text)] }] }],
      }),
    ),
  'ADF of Jira, quoted and quoted': (text) => textOfAdf(document(nested('blockquote', 40, paragraph(text)))),
  'ADF of Jira, in lists of lists': (text) => textOfAdf(document(nested('bulletList', 20, paragraph(text)))),
  'ADF for Jira': adfOfText,
  'links in a description': (description) => rules.mentionsOf(pull({ description }), reader),
  'links in other places': (text) =>
    rules.mentionsOf(pull({ title: text, headBranch: text, commitMessages: [text] }), reader),
  'an address': (path) => normalUrl(`https://tasks.example/${path}`),
  JSON: (text) => {
    try {
      return parseJson(Buffer.from(text));
    } catch (error) {
      return error;
    }
  },
  'JSON, a text': (text) => parseJson(Buffer.from(JSON.stringify({ text }))),
  'the scrubber': (text) => scrubber.scrub(text),
  'a pattern of a rule': (text) => createPattern(patternText('(?:a|b)*c')).test(text),
  'a glob': (text) => glob.test(text),
};

function nested(type: string, depth: number, inside: object): object {
  let node = inside;
  for (let at = 0; at < depth; at++)
    node = { type, content: [type === 'bulletList' ? { type: 'listItem', content: [node] } : node] };
  return node;
}

/** What means something somewhere. */
const SIGNS = [
  ...[
    ' ',
    '\t',
    '\n',
    '\r\n',
    '\n\n',
    '\0',
    'x',
    '1',
    'é',
    '😀',
    '\\',
    '\\"',
    '"',
    "'",
    '.',
    ',',
    ';',
    ':',
    '!',
    '?',
    ')',
    '(',
  ],
  ...[
    '<',
    '>',
    '</',
    '<a href="',
    '<a href="http://a">',
    '<b>',
    '</b>',
    '<br>',
    '<ul><li>',
    '<li>',
    '<pre>',
    '</pre>',
    '<code>',
  ],
  ...[
    '<code class="a',
    '<!--',
    '-->',
    '<blockquote>',
    '<script>',
    '<td>',
    '<img alt="a">',
    '&',
    '&amp;',
    '&#',
    '&#x41;',
  ],
  ...[
    '"a":http://',
    '":http://a',
    '*',
    '_',
    '-',
    '+',
    '@',
    '%',
    '%{',
    '}',
    '|',
    '[',
    ']',
    '](',
    '{',
    '`',
    '``',
    '```',
    '~~~',
  ],
  ...[
    '> ',
    '# ',
    '* ',
    'h1. ',
    'bq. ',
    '\n> ',
    '\n```',
    '#',
    '#1',
    '#12 ',
    'a/',
    'A',
    'AB',
    'A-',
    'A-1',
    'ENG-12 ',
    'a.',
  ],
  ...[
    'fixes ',
    'fixes #1, ',
    ', ',
    ' and ',
    'http://',
    'https://a.b/',
    'https://tasks.example/w/acme/tasks/a',
    'Task: ',
    '\nTask: A-1',
  ],
  ...['[1,', '{"a":', '[[', '}]', '%41', '$1', 'bug_', '-----', 'a*', ' *a', ' -a', '@a', '"a', ' !a', '<pre', '<code'],
];

const LENGTH = 2_000;
/** Steps for each character, at most: with the square of the length it would be thousands. */
const MOST_PER_CHARACTER = 400;

interface Hostile {
  /** One after the other, each as often as its share of the length allows. */
  readonly repeated: readonly string[];
  readonly end: string;
}

function textOf({ repeated, end }: Hostile, length: number): string {
  const share = length / repeated.length;
  return repeated.map((sign) => sign.repeat(Math.max(1, Math.floor(share / sign.length)))).join('') + end;
}

const hostile: fc.Arbitrary<Hostile> = fc.record({
  repeated: fc.array(
    fc.array(fc.constantFrom(...SIGNS), { minLength: 1, maxLength: 3 }).map((signs) => signs.join('')),
    { minLength: 1, maxLength: 2 },
  ),
  end: fc.constantFrom('', ...SIGNS),
});

const SINGLE: readonly Hostile[] = [
  ...SIGNS.map((sign) => ({ repeated: [sign], end: 'x' })),
  // These froze the daemon once.
  { repeated: ['"a":http://', '.'], end: 'x' },
  { repeated: ['<b>', '</i>'], end: 'x' },
];

const counter = openStepCounter();
afterAll(() => counter.close());

function perCharacter(read: (text: string) => unknown, hostile: Hostile, length: number): number {
  const text = textOf(hostile, length);
  return counter.count(() => read(text)) / text.length;
}

/** Reads all of them, and the hardest one at lengths that grow by four up to the longest. Empty where all is well. */
function tooHard(read: (text: string) => unknown, texts: readonly Hostile[], longest: number): string {
  const costs = texts.map((text) => ({ text, cost: perCharacter(read, text, LENGTH) }));
  const { text, cost } = costs.reduce((worst, each) => (each.cost > worst.cost ? each : worst));
  if (cost > MOST_PER_CHARACTER) return `${cost} steps for each character: ${JSON.stringify(text)}`;
  for (let length = LENGTH * 4, before = cost; length <= longest; length *= 4) {
    const now = perCharacter(read, text, length);
    if (now > before * 1.3 + 5) return `${before} to ${now} steps at ${length} characters: ${JSON.stringify(text)}`;
    before = now;
  }
  return '';
}

/** As much of a text as is ever read. */
const CAP = 128 * LENGTH;
/** Ends only what hangs. */
const PATIENCE = 600_000;
/** Those that read a text of their own kind; the others read as these do, or hand on. */
const TO_THE_CAP = /^(Textile|HTML of|ADF of Jira$|links in a description|JSON$)/;

describe.each(Object.entries(READERS))('%s', (name, read) => {
  const longest = TO_THE_CAP.test(name) ? CAP : 8 * LENGTH;

  it('each sign, repeated', { timeout: PATIENCE }, () => {
    expect(tooHard(read, SINGLE, longest)).toBe('');
  });

  it('signs that follow one another', { timeout: PATIENCE }, () => {
    expect(tooHard(read, fc.sample(hostile, { numRuns: 80, seed: 20_261_121 }), 8 * LENGTH)).toBe('');
  });
});

/** What a vendor sends, with hostile texts in every place of which something is made. */
it.each(PROFILES)('deliveries of $id', { timeout: PATIENCE }, ({ id, options: given, fixtures }) => {
  const connector = connectors.find((each) => each.id === id) as Connector<unknown>;
  const options = connector.options.parse(given);
  const seen = new Set<string>();
  for (const { file, source, event } of fixtures.filter(({ outcome }) => outcome === 'items')) {
    const fixture = readFileSync(new URL(`../../src/connectors/${id}/fixtures/${file}.json`, import.meta.url), 'utf8');
    /** What becomes of it with this text in this place; what is refused has been read too. */
    const translate = (place: readonly string[], text: string) => {
      const body = Buffer.from(JSON.stringify(filled(JSON.parse(fixture), place, text)));
      try {
        return JSON.stringify(connector.translate({ source, event, body }, options));
      } catch (error) {
        if (error instanceof SyncError) return error.code;
        throw error;
      }
    };
    for (const place of placesOf(JSON.parse(fixture))) {
      const name = `${event} ${place.join('.')}`;
      const isRead = translate(place, 'some words') !== translate(place, 'other words');
      if (!isRead || seen.has(name)) continue;
      seen.add(name);
      const texts = fc.sample(hostile, { numRuns: 6, seed: seen.size });
      expect({ name, fault: tooHard((text) => translate(place, text), texts, 4 * LENGTH) }).toEqual({
        name,
        fault: '',
      });
    }
  }
  expect(seen.size).toBeGreaterThan(0);
});

/** Where texts stand; of a list its first element stands for all. */
function placesOf(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value === 'string') return [path];
  if (typeof value !== 'object' || value === null) return [];
  const entries = Array.isArray(value) ? Object.entries(value).slice(0, 1) : Object.entries(value);
  return entries.flatMap(([name, inside]) => placesOf(inside, [...path, name]));
}

function filled(value: unknown, [name, ...rest]: readonly string[], text: string): unknown {
  if (name === undefined) return text;
  const holder = value as Record<string, unknown>;
  holder[name] = filled(holder[name], rest, text);
  return holder;
}
