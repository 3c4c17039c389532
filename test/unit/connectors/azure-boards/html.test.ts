import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { htmlOfText, textOfHtml } from '../../../../src/connectors/azure-boards/html.ts';

describe('text of HTML', () => {
  it.each<[string, string, string]>([
    ['lines of an editor', '<div>One.</div><div>Two.</div>', 'One.\nTwo.'],
    ['paragraphs', '<p>One.</p><p>Two.</p>', 'One.\n\nTwo.'],
    ['line breaks', 'One<br>Two<br/>Three', 'One\nTwo\nThree'],
    ['an empty line', '<div>One</div><div><br></div><div>Two</div>', 'One\n\nTwo'],
    ['spaces', '<div>  One&nbsp;  \n two </div>', 'One two'],
    ['entities', '<div>a &lt;b&gt; &amp; &quot;c&quot; &#8364;</div>', 'a <b> & "c" €'],
    ['entities that hide a tag', '<div>&lt;script&gt;alert(1)&lt;/script&gt;</div>', '<script>alert(1)</script>'],
    ['marks', '<div><b>a</b> <i>b</i> <s>c</s> <code>d</code></div>', '**a** _b_ ~~c~~ `d`'],
    ['headings', '<h1>Steps</h1><div>Go</div><h3>Then</h3>', '# Steps\n\nGo\n\n### Then'],
    ['a list', '<ul><li>a</li><li>b</li></ul>', '- a\n- b'],
    ['numbers', '<ol><li>a</li><li>b</li></ol>', '1. a\n2. b'],
    ['lists in lists', '<ul><li>a<ol><li>x</li></ol></li><li>b</li></ul>', '- a\n  1. x\n- b'],
    ['a list between paragraphs', '<p>a</p><ul><li>b</li></ul><p>c</p>', 'a\n\n- b\n\nc'],
    ['a quote', '<blockquote><div>a</div><div>b</div></blockquote><div>c</div>', '> a\n> b\n\nc'],
    ['code', '<pre><code>if (a &lt; b)\n  go();</code></pre>', '```\nif (a < b)\n  go();\n```'],
    ['a link', '<a href="https://work.example.com/t/1">the task</a>', '[the task](https://work.example.com/t/1)'],
    ['a link that is its own text', '<a href="https://a.example/1">https://a.example/1</a>', 'https://a.example/1'],
    ['a link without words', '<a href="https://a.example/1"><img></a>', 'https://a.example/1'],
    ['a link that does something', '<a href="javascript:alert(1)">click</a>', 'click'],
    ['a picture', '<div>see <img src="x" alt="the log"></div>', 'see the log'],
    ['a table', '<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>', '| a | b |\n| 1 | 2 |'],
    ['a rule', '<div>a</div><hr><div>b</div>', 'a\n\n---\n\nb'],
    ['what is no text', '<style>p{}</style><script>alert(1)</script><!-- BUG-1 --><div>a</div>', 'a'],
    ['a tag that is never closed', '<div><b>a<div>b', '**a\nb\n**'],
    ['tags that cross', '<div><b>a</div></b>b', '**a**\nb'],
    ['a tag that is never finished', '<div>a<div', 'a'],
    ['upper case', '<DIV>One</DIV><BR><DIV>Two</DIV>', 'One\n\nTwo'],
    ['nothing', '<div><br></div>', ''],
    ['text without markup', 'One\n\n- two &amp; three\n', 'One\n\n- two & three'],
    ['text with a comparison', 'a < b and c > d', 'a < b and c > d'],
  ])('%s', (_, html, expected) => {
    expect(textOfHtml(html)).toBe(expected);
  });

  it('stays in bounds with whatever is nested', () => {
    const many = 20_000;
    for (const tag of ['div', 'blockquote', 'ul><li', 'a href="https://a.example"', 'b', 'pre', 'script']) {
      const text = textOfHtml(`${`<${tag}>`.repeat(many)}x`);
      expect(text.length).toBeLessThan(many * 40);
    }
  });

  it('survives whatever comes', () => {
    const piece = fc.constantFrom(
      ...[
        '<p>',
        '</p>',
        '<ul>',
        '<li>',
        '</ul>',
        '<pre>',
        '</pre>',
        '<a href=x>',
        '</a>',
        '<blockquote>',
        '</blockquote>',
      ],
      ...[
        '<td>',
        '</tr>',
        '<script>',
        '</script>',
        '<!--',
        '-->',
        '<![CDATA[',
        '&#x0;',
        '&',
        '<',
        '>',
        '\n',
        'BUG-1 ',
        '\u0000',
      ],
    );
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

  it('links do not nest', () => {
    expect(textOfHtml('<a href="https://a.example">one <a href="https://b.example">two</a> three</a>')).toBe(
      '[one](https://a.example)[two](https://b.example) three',
    );
  });
});
