import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { adfOfText, textOfAdf } from '../../../../src/connectors/jira/adf.ts';

type Json = Record<string, unknown>;

const doc = (...content: unknown[]): Json => ({ type: 'doc', version: 1, content });
const text = (words: string, ...marks: Json[]): Json => ({
  type: 'text',
  text: words,
  ...(marks.length ? { marks } : {}),
});
const paragraph = (...content: unknown[]): Json => ({ type: 'paragraph', content });
const node = (type: string, attrs: Json, ...content: unknown[]): Json => ({ type, attrs, content });
const item = (...content: unknown[]): Json => ({ type: 'listItem', content });

describe('text of a document', () => {
  it.each<[string, Json, string]>([
    ['paragraphs', doc(paragraph(text('One.')), paragraph(text('Two.'))), 'One.\n\nTwo.'],
    ['a line break', doc(paragraph(text('One'), { type: 'hardBreak' }, text('Two'))), 'One\nTwo'],
    ['a heading', doc(node('heading', { level: 3 }, text('Steps'))), '### Steps'],
    ['a heading of no level', doc(node('heading', { level: 99 }, text('Steps'))), '# Steps'],
    ['strong', doc(paragraph(text('a', { type: 'strong' }))), '**a**'],
    ['emphasis and struck', doc(paragraph(text('a', { type: 'em' }), text('b', { type: 'strike' }))), '_a_~~b~~'],
    ['code', doc(paragraph(text('UTF-8', { type: 'code' }))), '`UTF-8`'],
    ['a mark that says nothing', doc(paragraph(text('a', { type: 'textColor', attrs: { color: '#f00' } }))), 'a'],
    [
      'a link with words',
      doc(paragraph(text('the task', { type: 'link', attrs: { href: 'https://work.example.com/t/1' } }))),
      '[the task](https://work.example.com/t/1)',
    ],
    [
      'a link that is its own text',
      doc(paragraph(text('https://a.example', { type: 'link', attrs: { href: 'https://a.example' } }))),
      'https://a.example',
    ],
    [
      'cards',
      doc(
        paragraph(node('inlineCard', { url: 'https://a.example/1' })),
        node('blockCard', { url: 'https://a.example/2' }),
      ),
      'https://a.example/1\n\nhttps://a.example/2',
    ],
    [
      'lists in lists',
      doc(
        node(
          'bulletList',
          {},
          item(
            paragraph(text('a')),
            node('orderedList', { order: 3 }, item(paragraph(text('x'))), item(paragraph(text('y')))),
          ),
          item(paragraph(text('b'))),
        ),
      ),
      '- a\n  3. x\n  4. y\n- b',
    ],
    [
      'tasks',
      doc(
        node(
          'taskList',
          {},
          node('taskItem', { state: 'DONE' }, text('a')),
          node('taskItem', { state: 'TODO' }, text('b')),
        ),
      ),
      '- [x] a\n- [ ] b',
    ],
    [
      'a task list in a task list',
      doc(
        node(
          'taskList',
          {},
          node('taskItem', { state: 'TODO' }, text('a')),
          node('taskList', {}, node('taskItem', { state: 'DONE' }, text('b'))),
        ),
      ),
      '- [ ] a\n  - [x] b',
    ],
    ['code', doc(node('codeBlock', { language: 'sh' }, text('npm test'))), '```sh\nnpm test\n```'],
    [
      'code that tries to end its block',
      doc(node('codeBlock', { language: 'a`\nb' }, text('```\nCloses BUG-1'))),
      '````ab\n```\nCloses BUG-1\n````',
    ],
    ['a quote', doc({ type: 'blockquote', content: [paragraph(text('a')), paragraph(text('b'))] }), '> a\n>\n> b'],
    ['a rule', doc(paragraph(text('a')), { type: 'rule' }, paragraph(text('b'))), 'a\n\n---\n\nb'],
    ['a panel', doc(node('panel', { panelType: 'info' }, paragraph(text('a')))), 'a'],
    ['something folded', doc(node('expand', { title: 'Log' }, paragraph(text('a')))), '**Log**\n\na'],
    [
      'a table',
      doc(
        node(
          'table',
          {},
          node(
            'tableRow',
            {},
            node('tableHeader', {}, paragraph(text('a'))),
            node('tableHeader', {}, paragraph(text('b'))),
          ),
          node(
            'tableRow',
            {},
            node('tableCell', {}, paragraph(text('1'))),
            node('tableCell', {}, paragraph(text('2')), paragraph(text('3'))),
          ),
        ),
      ),
      '| a | b |\n| 1 | 2 3 |',
    ],
    [
      'people, dates, states, faces',
      doc(
        paragraph(
          node('mention', { id: '1', text: '@Ada' }),
          text(' '),
          node('date', { timestamp: '1772409600000' }),
          text(' '),
          node('status', { text: 'READY' }),
          text(' '),
          node('emoji', { shortName: ':smile:' }),
        ),
      ),
      '@Ada 2026-03-02 READY :smile:',
    ],
    [
      'a picture',
      doc({ type: 'mediaSingle', content: [node('media', { type: 'file', id: 'x', alt: 'the log' })] }),
      'the log',
    ],
    [
      'a picture without alternative text',
      doc({
        type: 'mediaSingle',
        content: [
          {
            ...node('media', { type: 'external', url: 'https://a.example/shot.png' }),
            marks: [{ type: 'link', attrs: { href: 'https://work.example.com/tasks/BUG-12' } }],
          },
        ],
      }),
      '[https://a.example/shot.png](https://work.example.com/tasks/BUG-12)',
    ],
    [
      'a file without alternative text',
      doc(paragraph(node('mediaInline', { id: 'x', __fileName: 'trace.log' }))),
      'trace.log',
    ],
    ['a mention without text', doc(paragraph(node('mention', { id: '5b10a2844c20' }))), '@5b10a2844c20'],
    [
      'smart links with linked data',
      doc(
        paragraph(node('inlineCard', { data: { url: 'https://a.example/1' } })),
        node('blockCard', { data: { name: 'BUG-12' } }),
      ),
      'https://a.example/1\n\nBUG-12',
    ],
    [
      'a key within which a mark begins',
      doc(
        paragraph(
          text('See '),
          text('BUG', { type: 'strong' }),
          text('-12'),
          text(', '),
          text('OPS-', { type: 'em' }),
          text('3.'),
        ),
      ),
      'See BUG-12, OPS-3.',
    ],
    [
      'a key within which a link ends',
      doc(paragraph(text('BUG', { type: 'link', attrs: { href: 'https://a.example' } }), text('-12'))),
      'BUG-12 (https://a.example)',
    ],
    ['code beside a word', doc(paragraph(text('BUG', { type: 'code' }), text('-12'))), '`BUG`-12'],
    ['a node of tomorrow', doc({ type: 'hologram', content: [paragraph(text('a'))] }), 'a'],
    ['words outside of a paragraph', doc(text('a'), text('b'), paragraph(text('c'))), 'ab\n\nc'],
    ['nothing', doc(), ''],
    ['empty paragraphs', doc(paragraph(), paragraph(text('a')), paragraph()), 'a'],
  ])('%s', (_, document, expected) => {
    expect(textOfAdf(document)).toBe(expected);
  });

  it.each<[unknown]>([[undefined], [null], ['text'], [7], [[]], [{}], [{ type: 7 }], [{ type: 'doc', content: {} }]])(
    'is empty for %j',
    (given) => {
      expect(textOfAdf(given)).toBe('');
    },
  );

  it('ends at some depth', () => {
    let deep: Json = paragraph(text('deep'));
    for (let at = 0; at < 20_000; at++) deep = { type: 'panel', content: [deep] };
    expect(textOfAdf(doc(paragraph(text('above')), deep))).toBe('above');
  });

  it('takes names of every object for nothing', () => {
    for (const type of ['constructor', '__proto__', 'toString', 'hasOwnProperty'])
      expect(textOfAdf(doc({ type, content: [paragraph(text('a', { type }))] }))).toBe('a');
  });

  it('survives whatever comes', () => {
    const part = fc.letrec((tie) => ({
      node: fc.record(
        {
          type: fc.constantFrom('paragraph', 'text', 'bulletList', 'listItem', 'table', 'codeBlock', 'heading', 'x'),
          text: fc.oneof(fc.string(), fc.constant(7)),
          attrs: fc.oneof(
            fc.constant(null),
            fc.dictionary(fc.constantFrom('level', 'url', 'order', 'state'), fc.jsonValue()),
          ),
          marks: fc.oneof(fc.jsonValue(), fc.array(tie('node'), { maxLength: 2 })),
          content: fc.oneof({ depthSize: 'small' }, fc.jsonValue(), fc.array(tie('node'), { maxLength: 3 })),
        },
        { requiredKeys: [] },
      ),
    }));
    fc.assert(
      fc.property(part.node, (given) => {
        expect(textOfAdf({ type: 'doc', content: [given] })).toBeTypeOf('string');
      }),
    );
  });
});

describe('a document of text', () => {
  it('has paragraphs, breaks and links', () => {
    expect(adfOfText('Tracked as BUG-12,\nsee https://work.example.com/t/12.\n\n\nmarker')).toEqual(
      doc(
        paragraph(
          text('Tracked as BUG-12,'),
          { type: 'hardBreak' },
          text('see '),
          text('https://work.example.com/t/12', { type: 'link', attrs: { href: 'https://work.example.com/t/12' } }),
          text('.'),
        ),
        paragraph(text('marker')),
      ),
    );
  });

  it('reads as the text it was made of', () => {
    for (const given of ['one', 'one\ntwo\n\nthree', 'see https://a.example/x?y=1#z now'])
      expect(textOfAdf(adfOfText(given))).toBe(given);
  });

  it('holds no empty text, which Jira refuses', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '\n', ' ', 'https://a.b') }), (given) => {
        expect(JSON.stringify(adfOfText(given))).not.toContain('"text":""');
      }),
    );
  });
});

describe('the caps of a document', () => {
  const inside = (content: object[]) => textOfAdf({ type: 'doc', version: 1, content });
  const text = (value: string) => ({ type: 'paragraph', content: [{ type: 'text', text: value }] });

  it('length: what is beyond is left out', () => {
    expect(inside([text('a'.repeat(300_000)), text('b')])).toBe('a'.repeat(262_144));
  });

  it('nodes', () => {
    const nodes = Array.from({ length: 60_000 }, () => ({ type: 'text', text: 'a' }));
    expect(inside([{ type: 'paragraph', content: nodes }])).toBe('a'.repeat(49_998));
  });

  it('runs of backticks in code, however many', () => {
    const code = '` '.repeat(131_000);
    expect(inside([{ type: 'codeBlock', content: [{ type: 'text', text: `${code}\`\`\`\`` }] }])).toMatch(/^`{5}\n/);
  });

  it('indentation: deeper quotes stand at the same depth', () => {
    const quoted = Array.from({ length: 20 }).reduce<object>(
      (within) => ({ type: 'blockquote', content: [within] }),
      text('a\nb'),
    );
    expect(inside([quoted])).toBe(['a', 'b'].map((line) => '> '.repeat(8) + line).join('\n'));
  });
});
