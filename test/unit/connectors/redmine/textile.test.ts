import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { textOfTextile } from '../../../../src/connectors/redmine/textile.ts';
import { drawn } from '../../../support/harness/depth.ts';

describe('Textile becomes Markdown-like text', () => {
  it.each([
    ['h2. Steps', '## Steps'],
    ['h3(class#id). Steps', '### Steps'],
    ['p>. To the right', 'To the right'],
    ['bq. She said *no*', '> She said **no**'],
    ['* one\r\n** two\r\n*** three', '- one\n  - two\n    - three'],
    ['# one\n## two\n#* three', '1. one\n  1. two\n  - three'],
    ['|_. Name |\\2. Size |\n| a.bin | 3 |', '| Name | Size |\n| a.bin | 3 |'],
    ['*bold* _em_ -gone- +new+ @co*d*e@', '**bold** _em_ ~~gone~~ new `co*d*e`'],
    ['%{color:red}red% and 50% and 60%', 'red and 50% and 60%'],
    ['!picture.png!', '![](picture.png)'],
    ['"the task":https://work.example.com/t/BUG-12.', '[the task](https://work.example.com/t/BUG-12).'],
    ['https://x.example/a_b-c*d*e', 'https://x.example/a_b-c*d*e'],
    ['2 * 3 * 4, a-b-c, x - y - z, 1 + 2 + 3, Really! No! a@b.example', undefined],
    ['BUG-12 and BUG-13', undefined],
    ['before <pre>one</pre> after', 'before\n```\none\n```\n after'],
    ['<pre>\n* x\n*bold*\n</pre>\n*bold*', '```\n* x\n*bold*\n```\n**bold**'],
    ['<pre><code class="ruby">\nputs "*x*"\n</code></pre>', '```ruby\nputs "*x*"\n```'],
    ['<pre>\nnever ends', '```\nnever ends\n```'],
    ['<pre>\n```\n</pre>\nh1. out', '```\n` ` `\n```\n# out'],
    ['', ''],
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
