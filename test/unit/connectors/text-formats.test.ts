import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { htmlOfText, textOfHtml } from '../../../src/connectors/azure-boards/html.ts';
import { adfOfText, textOfAdf } from '../../../src/connectors/jira/adf.ts';
import { textOfTextile } from '../../../src/connectors/redmine/textile.ts';
import { drawn } from '../../support/harness/depth.ts';

describe('html', () => {
  describe('text of HTML', () => {
    it.each<[string, string, string]>([
      ['paragraphs', '<p>One.</p><p>Two.</p>', 'One.\n\nTwo.'],
      ['line breaks', 'One<br>Two<br/>Three', 'One\nTwo\nThree'],
      ['entities that hide a tag', '<div>&lt;script&gt;alert(1)&lt;/script&gt;</div>', '<script>alert(1)</script>'],
      ['lists in lists', '<ul><li>a<ol><li>x</li></ol></li><li>b</li></ul>', '- a\n  1. x\n- b'],
      ['code', '<pre><code>if (a &lt; b)\n  go();</code></pre>', '```\nif (a < b)\n  go();\n```'],
      ['a link', '<a href="https://work.example.com/t/1">the task</a>', '[the task](https://work.example.com/t/1)'],
      ['a link that does something', '<a href="javascript:alert(1)">click</a>', 'click'],
      ['a table', '<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>', '| a | b |\n| 1 | 2 |'],
      ['what is no text', '<style>p{}</style><script>alert(1)</script><!-- BUG-1 --><div>a</div>', 'a'],
    ])('%s', (_, html, expected) => {
      expect(textOfHtml(html)).toBe(expected);
    });

    it('survives whatever comes', () => {
      const pieces =
        '<p> </p> <ul> <li> </ul> <pre> </pre> <a_href=x> </a> <blockquote> </blockquote> <td> </tr> <script>';
      const more = ['</script>', '<!--', '-->', '<![CDATA[', '&#x0;', '&', '<', '>', '\n', 'BUG-1 ', '\u0000'];
      const piece = fc.constantFrom(...pieces.split(' ').map((each) => each.replace('_', ' ')), ...more);
      fc.assert(
        fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
          expect(textOfHtml(pieces.join(''))).toBeTypeOf('string');
        }),
      );
    });
  });

  describe('HTML of text', () => {
    it('has breaks and links, and no markup of the text', () => {
      expect(htmlOfText('Tracked as <b>BUG-12</b>,\nsee https://work.example.com/t/12?a=1&b=2.')).toBe(
        'Tracked as &lt;b&gt;BUG-12&lt;/b&gt;,<br>see <a href="https://work.example.com/t/12?a=1&amp;b=2">https://work.example.com/t/12?a=1&amp;b=2</a>.',
      );
    });

    it('reads as the text it was made of', () => {
      for (const given of ['one', 'one\ntwo', 'one\n\ntwo', 'a < b & "c"', 'see https://a.example/x?y=1#z now'])
        expect(textOfHtml(htmlOfText(given))).toBe(given);
    });
  });

  describe('the caps of a document', () => {
    it('length: what is beyond is left out', () => {
      expect(textOfHtml(`<p>${'a'.repeat(300_000)}</p>`)).toBe(`${'a'.repeat(262_140)}…`);
    });

    it('nesting: the document ends where it goes deeper', () => {
      const deep = (depth: number) => textOfHtml(`begin ${'<b>'.repeat(depth)}inside${'</b>'.repeat(depth)} end`);
      expect(deep(200)).toMatch(/^begin \*+inside\*+ end$/);
      expect(deep(300)).toMatch(/^begin \*+$/);
    });

    it('elements: marks that are never closed are not opened again without end [A8]', () => {
      const marks = Array.from({ length: 200 }, (_, at) => `<b class="${at}">`).join('');
      expect(textOfHtml(`<p>${marks}${'<p>x'.repeat(20_000)}`).length).toBeLessThan(4 * 65_536);
    });
  });
});

describe('adf', () => {
  type Json = Record<string, unknown>;

  /** A text alone stands for its node. */
  const nodes = (content: readonly unknown[]) => content.map((each) => (typeof each === 'string' ? text(each) : each));
  const doc = (...content: unknown[]): Json => ({ type: 'doc', version: 1, content: nodes(content) });
  const text = (words: string, ...marks: Json[]): Json => ({
    type: 'text',
    text: words,
    ...(marks.length && { marks }),
  });
  const p = (...content: unknown[]): Json => ({ type: 'paragraph', content: nodes(content) });
  const node = (type: string, attrs: Json, ...content: unknown[]): Json => ({ type, attrs, content: nodes(content) });
  const mark = (type: string, attrs?: Json): Json => ({ type, ...(attrs && { attrs }) });
  const link = (words: string, href: string) => text(words, mark('link', { href }));
  /** A row of cells of one kind, whose lines are paragraphs. */
  const row = (kind: string, ...cells: string[]) => {
    const paragraphs = (cell: string) => cell.split('\n').map((line) => p(line));
    return node('tableRow', {}, ...cells.map((cell) => node(`table${kind}`, {}, ...paragraphs(cell))));
  };
  const item = (...content: unknown[]): Json => ({ type: 'listItem', content });

  describe('text of a document', () => {
    it.each<[string, Json, string]>([
      ['paragraphs', doc(p('One.'), p('Two.')), 'One.\n\nTwo.'],
      [
        'a link with words',
        doc(p(link('the task', 'https://work.example.com/t/1'))),
        '[the task](https://work.example.com/t/1)',
      ],
      [
        'lists in lists',
        doc(
          node(
            'bulletList',
            {},
            item(p('a'), node('orderedList', { order: 3 }, item(p('x')), item(p('y')))),
            item(p('b')),
          ),
        ),
        '- a\n  3. x\n  4. y\n- b',
      ],
      [
        'code that tries to end its block',
        doc(node('codeBlock', { language: 'a`\nb' }, '```\nCloses BUG-1')),
        '````ab\n```\nCloses BUG-1\n````',
      ],
      ['a table', doc(node('table', {}, row('Header', 'a', 'b'), row('Cell', '1', '2\n3'))), '| a | b |\n| 1 | 2 3 |'],
      [
        'a key within which a mark begins',
        doc(p('See ', text('BUG', mark('strong')), '-12', ', ', text('OPS-', mark('em')), '3.')),
        'See BUG-12, OPS-3.',
      ],
    ])('%s', (_, document, expected) => {
      expect(textOfAdf(document)).toBe(expected);
    });

    it('takes names of every object for nothing', () => {
      for (const type of ['constructor', '__proto__', 'toString', 'hasOwnProperty'])
        expect(textOfAdf(doc({ type, content: [p(text('a', { type }))] }))).toBe('a');
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
          p(
            'Tracked as BUG-12,',
            { type: 'hardBreak' },
            'see ',
            link('https://work.example.com/t/12', 'https://work.example.com/t/12'),
            '.',
          ),
          p('marker'),
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
    it('length: what is beyond is left out', () => {
      expect(textOfAdf(doc(p('a'.repeat(300_000)), p('b')))).toBe('a'.repeat(262_144));
    });

    it('runs of backticks in code, however many', () => {
      const code = '` '.repeat(131_000);
      expect(textOfAdf(doc(node('codeBlock', {}, `${code}\`\`\`\``)))).toMatch(/^`{5}\n/);
    });
  });
});

describe('textile', () => {
  describe('Textile becomes Markdown-like text', () => {
    it.each([
      ['* one\r\n** two\r\n*** three', '- one\n  - two\n    - three'],
      ['# one\n## two\n#* three', '1. one\n  1. two\n  - three'],
      ['|_. Name |\\2. Size |\n| a.bin | 3 |', '| Name | Size |\n| a.bin | 3 |'],
      ['*bold* _em_ -gone- +new+ @co*d*e@', '**bold** _em_ ~~gone~~ new `co*d*e`'],
      ['"the task":https://work.example.com/t/BUG-12.', '[the task](https://work.example.com/t/BUG-12).'],
      ['https://x.example/a_b-c*d*e', 'https://x.example/a_b-c*d*e'],
      ['2 * 3 * 4, a-b-c, x - y - z, 1 + 2 + 3, Really! No! a@b.example', undefined],
      ['<pre>\n* x\n*bold*\n</pre>\n*bold*', '```\n* x\n*bold*\n```\n**bold**'],
      ['<pre>\n```\n</pre>\nh1. out', '```\n` ` `\n```\n# out'],
    ])('%j', (textile, text) => {
      expect(textOfTextile(textile)).toBe(text ?? textile);
    });
  });

  describe('whatever is typed', () => {
    const signs = fc.constantFrom(
      ...['*', '**', '_', '-', '+', '@', '!', '%{', '}', '"', '":http://', '|', '<pre>', '</pre>', '<code class="'],
      ...['#', 'h1. ', 'bq. ', '\n', ' ', 'a', 'BUG-12', '```', '.', '\r'],
    );

    it('becomes a text', () => {
      fc.assert(
        fc.property(fc.array(signs, { maxLength: 60 }), (parts) => {
          expect(typeof textOfTextile(parts.join(''))).toBe('string');
        }),
        { numRuns: drawn(5_000) },
      );
    });

    it('keeps the keys that are in it', () => {
      fc.assert(
        fc.property(fc.array(signs, { maxLength: 20 }), fc.array(signs, { maxLength: 20 }), (before, after) => {
          const text = textOfTextile(`${before.join('')} BUG-77 ${after.join('')}`);
          // A style between percent signs and braces is no text.
          fc.pre(!before.includes('%{') && !before.includes('<code class="'));
          expect(text).toContain('BUG-77');
        }),
        { numRuns: drawn(5_000) },
      );
    });
  });
});
