import { type DefaultTreeAdapterTypes, defaultTreeAdapter, parse, type Token } from 'parse5';
import { cut, LONGEST_SOURCE } from '../../model/text-limits.ts';
import { ADDRESS_IN_TEXT } from '../kit/payload.ts';

/**
 * Converts HTML, the format of descriptions and comments in Azure Boards, to Markdown-like plain text, and back.
 *
 * Pure, and made for hostile documents: nothing is run or followed, parts without text are ignored, and length, nesting, and
 * indentation of quotes and lists are limited. Text is not escaped, so that people and link rules find what was typed.
 */

/** Deeper quotes and lists are written at this depth. */
const DEEPEST = 12;
/** Depth of nesting at which the document is cut. */
const MOST_OPEN = 256;
/** Number of elements at which it is cut: an unclosed mark is opened again in each paragraph after it. */
const MOST_ELEMENTS = 65_536;

const SILENT = new Set(['script', 'style', 'head', 'title', 'template', 'noscript', 'textarea', 'svg', 'math']);
/** Elements that are separated from their surroundings. */
const PARAGRAPHS = new Set(['p', 'pre', 'blockquote', 'ul', 'ol', 'table', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6']);
/** Elements that begin and end a line. */
const LINES = new Set([
  'div',
  'section',
  'article',
  'header',
  'footer',
  'li',
  'tr',
  'dt',
  'dd',
  'figure',
  'figcaption',
]);
const MARKS: Readonly<Record<string, string>> = {
  b: '**',
  strong: '**',
  i: '_',
  em: '_',
  s: '~~',
  del: '~~',
  strike: '~~',
  code: '`',
};

export function textOfHtml(given: string): string {
  const html = cut(given, LONGEST_SOURCE);
  // A text without any markup keeps its lines.
  if (!/<[a-z!/]/i.test(html)) return decoded(html).trim();
  const writer = new Writer();
  for (const child of read(html).childNodes) tell(child, writer);
  return writer.finish();
}

type Document = DefaultTreeAdapterTypes.Document;
type Node = DefaultTreeAdapterTypes.ChildNode;

class TooMuch extends Error {}

/** Parses like a browser, up to the limits of nesting and of elements. */
function read(html: string): Document {
  const document = defaultTreeAdapter.createDocument();
  let elements = 0;
  let open = 0;
  const treeAdapter: typeof defaultTreeAdapter = {
    ...defaultTreeAdapter,
    createDocument: () => document,
    createElement: (...given) => {
      if (++elements > MOST_ELEMENTS) throw new TooMuch();
      return defaultTreeAdapter.createElement(...given);
    },
    onItemPush: () => {
      if (++open > MOST_OPEN) throw new TooMuch();
    },
    onItemPop: () => open--,
  };
  try {
    parse(html, { treeAdapter });
  } catch (thrown) {
    if (!(thrown instanceof TooMuch)) throw thrown;
  }
  return document;
}

/** Limited by the depth of open elements. */
function tell(node: Node, writer: Writer): void {
  if ('value' in node) writer.text(node.value);
  if (!('tagName' in node)) return;
  writer.open(node.tagName, node.attrs);
  for (const child of node.childNodes) tell(child, writer);
  writer.close(node.tagName);
}

function decoded(text: string): string {
  return wordsOf(read(text));
}

function wordsOf(node: Document | Node): string {
  if ('value' in node) return node.value;
  return 'childNodes' in node ? node.childNodes.map(wordsOf).join('') : '';
}

interface List {
  readonly isOrdered: boolean;
  count: number;
}

class Writer {
  readonly #lines: string[] = [];
  readonly #lists: List[] = [];
  /** The target of the open link, and the piece of the line it begins with. Links do not nest. */
  #link: { readonly href: string; readonly from: number } | undefined;
  /** Pieces, none of them empty: repeated concatenation and search of a line would take the square of its length. */
  #line: string[] = [];
  #quotes = 0;
  #silent = 0;
  #code = 0;
  #apart = false;
  /** The bullet before the line that is being written, once. */
  #bullet = '';

  open(name: string, attributes: readonly Token.Attribute[]): void {
    if (SILENT.has(name)) this.#silent++;
    if (this.#silent > 0) return;
    this.#begin(name);
    if (isList(name)) this.#lists.push({ isOrdered: name === 'ol', count: 0 });
    if (name === 'li') this.#item();
    if (name === 'blockquote') this.#quotes++;
    if (name === 'pre') this.#fence(1);
    if (name === 'td' || name === 'th') this.#write(this.#line.length === 0 ? '| ' : ' | ');
    if (name === 'img') this.#write(attributeOf(attributes, 'alt') ?? '');
    if (name === 'a') this.#beginLink(targetOf(attributeOf(attributes, 'href')));
    this.#mark(name);
  }

  close(name: string): void {
    if (this.#silent > 0) {
      if (SILENT.has(name)) this.#silent--;
      return;
    }
    this.#mark(name);
    if (name === 'a') this.#endLink();
    if (name === 'tr' && this.#line.length > 0) this.#write(' |');
    if (LINES.has(name) || PARAGRAPHS.has(name)) this.#flush();
    if (name === 'pre') this.#fence(-1);
    if (isList(name)) this.#lists.pop();
    if (name === 'blockquote') this.#quotes = Math.max(0, this.#quotes - 1);
    if (PARAGRAPHS.has(name) && this.#lists.length === 0) this.#apart = true;
  }

  text(text: string): void {
    if (this.#silent > 0) return;
    if (this.#code > 0) {
      const [first = '', ...rest] = text.split(/\r?\n/);
      this.#write(first);
      for (const line of rest) {
        this.#flush(true);
        this.#write(line);
      }
      return;
    }
    // Editors use a no-break space to keep a space at the end of a line.
    const collapsed = text.replace(/[\s\u00a0]+/g, ' ');
    this.#write((this.#line.at(-1) ?? ' ').endsWith(' ') ? collapsed.trimStart() : collapsed);
  }

  finish(): string {
    this.#flush();
    return this.#lines
      .join('\n')
      .replace(/\n{3,}/g, '\n\n')
      .trim();
  }

  #write(text: string): void {
    if (text !== '') this.#line.push(text);
  }

  /** A list within a list is not separated. */
  #begin(name: string): void {
    if (PARAGRAPHS.has(name) && !(isList(name) && this.#lists.length > 0)) this.#paragraph();
    else if (LINES.has(name) || isList(name)) this.#flush();
    if (name === 'br') this.#flush(true);
    if (name === 'hr') this.#line = ['---'];
    if (/^h[1-6]$/.test(name)) this.#line = [`${'#'.repeat(Number(name[1]))} `];
  }

  #paragraph(): void {
    this.#flush();
    this.#apart = this.#lines.length > 0;
  }

  /** Ends the line; an empty one is written only on request. */
  #flush(always = false): void {
    const line = this.#line.join('').trimEnd();
    this.#line = [];
    this.#link = undefined;
    if (line === '' && !always) return;
    const quote = '> '.repeat(Math.min(this.#quotes, DEEPEST));
    const indent = '  '.repeat(Math.min(Math.max(0, this.#lists.length - 1), DEEPEST));
    const hanging = this.#bullet || ' '.repeat(this.#lists.length > 0 ? 2 : 0);
    if (this.#apart) this.#lines.push(quote.trimEnd());
    this.#apart = false;
    this.#lines.push((quote + indent + hanging + line).trimEnd());
    this.#bullet = '';
  }

  #item(): void {
    const list = this.#lists.at(-1);
    if (list) list.count++;
    this.#bullet = list?.isOrdered ? `${list.count}. ` : '- ';
  }

  #fence(by: 1 | -1): void {
    this.#code = Math.max(0, this.#code + by);
    this.#line = ['```'];
    this.#flush();
  }

  #mark(name: string): void {
    if (this.#code === 0 && Object.hasOwn(MARKS, name)) this.#write(MARKS[name] ?? '');
  }

  #beginLink(href: string): void {
    this.#endLink();
    if (href !== '') this.#link = { href, from: this.#line.length };
  }

  #endLink(): void {
    const link = this.#link;
    this.#link = undefined;
    if (!link) return;
    const words = this.#line.splice(link.from).join('').trim();
    this.#write(words === '' || words === link.href ? link.href : `[${words}](${link.href})`);
  }
}

function isList(name: string): boolean {
  return name === 'ul' || name === 'ol';
}

function attributeOf(attributes: readonly Token.Attribute[], name: string): string | undefined {
  return attributes.find((each) => each.name === name)?.value;
}

/** Returns only addresses that people can open. */
function targetOf(href: string | undefined): string {
  const target = href?.trim() ?? '';
  return /^https?:\/\/\S+$/i.test(target) ? target : '';
}

/** Plain text as HTML: line breaks, and addresses as links. */
export function htmlOfText(text: string): string {
  return text
    .split('\n')
    .map((line) =>
      line
        .split(ADDRESS_IN_TEXT)
        .map((part, at) => (at % 2 === 1 ? `<a href="${escaped(part)}">${escaped(part)}</a>` : escaped(part)))
        .join(''),
    )
    .join('<br>');
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => ESCAPES[sign] ?? sign);
}
