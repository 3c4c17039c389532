import { htmlOfText, textOfHtml } from '../../../src/connectors/azure-boards/html.ts';
import { adfOfText, textOfAdf } from '../../../src/connectors/jira/adf.ts';
import { textOfTextile } from '../../../src/connectors/redmine/textile.ts';
import { connectors } from '../../../src/connectors/registry.ts';
import { parseJson } from '../../../src/platform/http/parse-json.ts';
import { createGlob, createPattern, patternText } from '../../../src/platform/lib/pattern.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';
import { createLinkRules } from '../../../src/sync/reconcile/link-rules/link-rules.ts';
import { normalUrl } from '../../../src/sync/reconcile/link-rules/lookup-names.ts';
import { pull } from '../rows/items.ts';

/** Code that gets texts of strangers. */
const rules = createLinkRules({
  trailers: ['Task', 'Refs'],
  links: [{ pattern: patternText('(?:task|bug)[ _]?([0-9]+)'), task: 'BUG-$1' }],
  addresses: ['https://tasks.example/w/acme'],
  grammars: connectors.map(({ id, publicHost, grammar }) => ({ connector: id, host: publicHost, grammar })),
});
const reader = { name: 'main', grammar: connectors.find(({ id }) => id === 'gitlab')?.grammar };
const scrubber = createScrubber(['a secret of the configuration', 'another-one-0123456789']);
const glob = createGlob('*a*b*c*');
const paragraph = (text: string) => ({ type: 'paragraph', content: [{ type: 'text', text }] });
const document = (...content: object[]) => ({ type: 'doc', version: 1, content });

export const READERS: Readonly<Record<string, (text: string) => unknown>> = {
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

/** Signs with a meaning in some format: those with a space in them, and the others. */
export const SIGNS = [
  ...[' ', '\t', '\n', '\r\n', '\n\n', '\0', '<a href="', '<a href="http://a">', '<code class="a', '<img alt="a">'],
  ...['> ', '# ', '* ', 'h1. ', 'bq. ', '\n> ', '\n```', '#12 ', 'ENG-12 ', 'fixes ', 'fixes #1, ', ', ', ' and '],
  ...['Task: ', '\nTask: A-1', ' *a', ' -a', ' !a'],
  ...String.raw`
    x tsk_ 1 é 😀 \ \" " ' . , ; : ! ? ) ( < > </ <b> </b> <br> <ul><li> <li> <pre> </pre> <code> <!-- --> <blockquote> <script>
    <td> & &amp; &# &#x41; "a":http:// ":http://a * _ - + @ % %{ } | [ ] ]( { ${'`'} ${'``'} ${'```'} ~~~ # #1 a/ A AB A- A-1 a.
    http:// https://a.b/ https://tasks.example/w/acme/tasks/a [1, {"a": [[ }] %41 $1 bug_ ----- a* @a "a <pre <code
  `
    .trim()
    .split(/\s+/),
];

/** A text that grows as it is wanted. */
export interface Hostile {
  /** One after the other, each as often as its share of the length allows. */
  readonly repeated: readonly string[];
  readonly end: string;
}

export function textOf({ repeated, end }: Hostile, length: number): string {
  const share = length / repeated.length;
  return repeated.map((sign) => sign.repeat(Math.max(1, Math.floor(share / sign.length)))).join('') + end;
}

/** Each sign alone, and what was found to be hard. */
export const SINGLE: readonly Hostile[] = [
  ...SIGNS.map((sign) => ({ repeated: [sign], end: 'x' })),
  // These froze the daemon once.
  { repeated: ['"a":http://', '.'], end: 'x' },
  { repeated: ['<b>', '</i>'], end: 'x' },
];
