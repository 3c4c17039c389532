import { Parser } from 'htmlparser2';

/**
 * HTML, which Azure Boards keeps descriptions and comments in, as Markdown-like plain text, and back.
 *
 * Pure, and made for hostile documents: nothing is run or followed, what is no text contributes nothing, and how far
 * quotes and lists indent ends somewhere. Text is not escaped: people and link rules are to find what was typed.
 */

/** Deeper quotes and lists are written as if they stood at this depth. */
const DEEPEST = 12;

const SILENT = new Set(['script', 'style', 'head', 'title', 'template', 'noscript', 'textarea', 'svg', 'math']);
/** Stand apart from what is around them. */
const PARAGRAPHS = new Set(['p', 'pre', 'blockquote', 'ul', 'ol', 'table', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6']);
/** Begin a line and end one. */
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

export function textOfHtml(html: string): string {
  // What people type without any markup keeps its lines.
  if (!/<[a-z!/]/i.test(html)) return decoded(html).trim();
  const writer = new Writer();
  const parser = new Parser(
    {
      onopentag: (name, attributes) => writer.open(name, attributes),
      ontext: (text) => writer.text(text),
      onclosetag: (name) => writer.close(name),
    },
    { decodeEntities: true },
  );
  parser.end(html);
  return writer.finish();
}

function decoded(text: string): string {
  const parts: string[] = [];
  const parser = new Parser({ ontext: (part) => parts.push(part) }, { decodeEntities: true });
  parser.end(text);
  return parts.join('');
}

interface List {
  readonly isOrdered: boolean;
  count: number;
}

class Writer {
  readonly #lines: string[] = [];
  readonly #lists: List[] = [];
  /** What links lead to, by how deep they are nested; empty where it is not to be told. */
  readonly #links: { readonly href: string; readonly from: number }[] = [];
  #line = '';
  #quotes = 0;
  #silent = 0;
  #code = 0;
  #apart = false;
  /** Before the line that is being written: the bullet, once. */
  #bullet = '';

  open(name: string, attributes: Readonly<Record<string, string>>): void {
    if (SILENT.has(name)) this.#silent++;
    if (this.#silent > 0) return;
    this.#begin(name);
    if (isList(name)) this.#lists.push({ isOrdered: name === 'ol', count: 0 });
    if (name === 'li') this.#item();
    if (name === 'blockquote') this.#quotes++;
    if (name === 'pre') this.#fence(1);
    if (name === 'td' || name === 'th') this.#line += this.#line === '' ? '| ' : ' | ';
    if (name === 'img') this.#line += attributes['alt'] ?? '';
    if (name === 'a') this.#links.push({ href: targetOf(attributes['href']), from: this.#line.length });
    this.#mark(name);
  }

  close(name: string): void {
    if (this.#silent > 0) {
      if (SILENT.has(name)) this.#silent--;
      return;
    }
    this.#mark(name);
    if (name === 'a') this.#endLink();
    if (name === 'tr' && this.#line !== '') this.#line += ' |';
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
      this.#line += first;
      for (const line of rest) {
        this.#flush(true);
        this.#line = line;
      }
      return;
    }
    // A no-break space is how editors keep a space at the end of a line.
    const collapsed = text.replace(/[\s\u00a0]+/g, ' ');
    this.#line += this.#line === '' || this.#line.endsWith(' ') ? collapsed.trimStart() : collapsed;
  }

  finish(): string {
    this.#flush();
    return this.#lines
      .join('\n')
      .replace(/\n{3,}/g, '\n\n')
      .trim();
  }

  /** A list within a list does not stand apart. */
  #begin(name: string): void {
    if (PARAGRAPHS.has(name) && !(isList(name) && this.#lists.length > 0)) this.#paragraph();
    else if (LINES.has(name) || isList(name)) this.#flush();
    if (name === 'br') this.#flush(true);
    if (name === 'hr') this.#line = '---';
    if (/^h[1-6]$/.test(name)) this.#line = `${'#'.repeat(Number(name[1]))} `;
  }

  #paragraph(): void {
    this.#flush();
    this.#apart = this.#lines.length > 0;
  }

  /** Ends the line; an empty one is written only where somebody asked for it. */
  #flush(always = false): void {
    const line = this.#line.trimEnd();
    this.#line = '';
    this.#links.length = 0;
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
    this.#line = '```';
    this.#flush();
  }

  #mark(name: string): void {
    if (this.#code === 0 && Object.hasOwn(MARKS, name)) this.#line += MARKS[name];
  }

  #endLink(): void {
    const link = this.#links.pop();
    const words = link ? this.#line.slice(link.from).trim() : '';
    if (!link || link.href === '' || link.href === words) return;
    this.#line = `${this.#line.slice(0, link.from)}${words === '' ? link.href : `[${words}](${link.href})`}`;
  }
}

function isList(name: string): boolean {
  return name === 'ul' || name === 'ol';
}

/** Only what people can open. */
function targetOf(href: string | undefined): string {
  const target = href?.trim() ?? '';
  return /^https?:\/\/\S+$/i.test(target) ? target : '';
}

const ADDRESS = /(https?:\/\/[^\s<>()[\]"'`]+[^\s<>()[\]"'`.,;:!?])/;

/** Plain text as HTML: line breaks, and addresses as links. */
export function htmlOfText(text: string): string {
  return text
    .split('\n')
    .map((line) =>
      line
        .split(ADDRESS)
        .map((part, at) => (at % 2 === 1 ? `<a href="${escaped(part)}">${escaped(part)}</a>` : escaped(part)))
        .join(''),
    )
    .join('<br>');
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => ESCAPES[sign] ?? sign);
}
