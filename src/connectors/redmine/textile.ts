import { cut, LONGEST_SOURCE } from '../../model/text-limits.ts';
import { withoutEnd } from '../../platform/lib/text.ts';

/**
 * Converts Textile, Redmine's default format of texts, to Markdown-like plain text.
 *
 * Pure, and made for hostile texts: length has a cap, and every pattern stops at the next sign of its kind, so time grows with
 * the length. Unknown markup stays as it was typed, for people and link rules to find.
 */
export function textOfTextile(textile: string): string {
  const lines = cut(textile, LONGEST_SOURCE).replace(/\r\n?/g, '\n').split('\n');
  const out: string[] = [];
  let isCode = false;
  for (const line of lines) {
    if (isCode) isCode = !endCode(line, out);
    else isCode = beginCode(line, out);
  }
  if (isCode) out.push(FENCE);
  return out.join('\n').trim();
}

const FENCE = '```';
const OPENING = /<pre(?:\s[^<>]*)?>/i;
const CODE = /^<code(?:\s+class="([\w+-]{1,40})(?:[^\w+"-][^"]*)?")?\s*>$/i;
const LONGEST_TAG = 200;

/** Whether the line begins a block of code that continues. The text before the block is prose. */
function beginCode(line: string, out: string[]): boolean {
  const opening = OPENING.exec(line);
  if (!opening) {
    out.push(proseLine(line));
    return false;
  }
  const before = line.slice(0, opening.index);
  if (before.trim() !== '') out.push(proseLine(before));
  const rest = line.slice(opening.index + opening[0].length);
  const code = codeTag(rest);
  out.push(FENCE + (code?.language ?? ''));
  const inside = code ? code.rest : rest;
  return inside === '' || !endCode(inside, out);
}

/** Returns the tag of code at the beginning of a line, and the rest of the line. */
function codeTag(line: string): { readonly language: string; readonly rest: string } | undefined {
  const text = line.trimStart();
  const end = text.slice(0, LONGEST_TAG).indexOf('>') + 1;
  const tag = CODE.exec(text.slice(0, end));
  return tag ? { language: tag[1] ?? '', rest: text.slice(end) } : undefined;
}

/** Whether the line ends the block of code. Nothing else in the code can end it, because signs of a fence are broken up. */
function endCode(line: string, out: string[]): boolean {
  const end = line.search(/<\/pre>/i);
  const code = (end === -1 ? line : line.slice(0, end)).replace(end === -1 ? /$^/ : /<\/code>\s*$/i, '');
  if (end === -1 || code.trim() !== '') out.push(code.replaceAll(FENCE, '` ` `'));
  if (end === -1) return false;
  out.push(FENCE);
  const after = line.slice(end + '</pre>'.length);
  if (after.trim() !== '') out.push(proseLine(after));
  return true;
}

const HEADING = /^h([1-6])(?:\([^()]{0,100}\))?[<>=]{0,2}\.\s+/;
const QUOTE = /^bq\.\s+/;
const PARAGRAPH = /^p(?:\([^()]{0,100}\))?[<>=]{0,2}\.\s+/;
const ITEM = /^\s{0,8}([*#]{1,12})\s+/;

function proseLine(line: string): string {
  const text = line.trimEnd();
  const heading = HEADING.exec(text);
  if (heading) return `${'#'.repeat(Number(heading[1]))} ${inline(text.slice(heading[0].length))}`;
  const quote = QUOTE.exec(text) ?? PARAGRAPH.exec(text);
  if (quote) return `${quote[0].startsWith('b') ? '> ' : ''}${inline(text.slice(quote[0].length))}`;
  const item = ITEM.exec(text);
  if (item) return `${mark(item[1] as string)}${inline(text.slice(item[0].length))}`;
  if (text.startsWith('|') && text.endsWith('|') && text.length > 1) return row(text);
  return inline(text);
}

/** The last sign decides the kind of list, and their number its depth. */
function mark(signs: string): string {
  return '  '.repeat(signs.length - 1) + (signs.endsWith('#') ? '1. ' : '- ');
}

/** Cells may begin with their kind: `_.` a heading, `\2.` two columns wide. */
function row(text: string): string {
  const cells = text
    .slice(1, -1)
    .split('|')
    .map((cell) => inline(cell.replace(/^[_\\/\d<>=~^]{1,8}\.\s?/, '').trim()));
  return `| ${cells.join(' | ')} |`;
}

/** Text between `@` is code, and is not parsed. */
function inline(text: string): string {
  return text
    .split(/(?<![\w@])@([^@\n]+)@(?![\w@])/)
    .map((part, at) => (at % 2 === 1 ? `\`${part.replaceAll('`', "'")}\`` : spans(part)))
    .join('');
}

const LINK = /"([^"\n]+)":((?:https?:\/\/|mailto:)[^\s"<>|]+)/g;
const IMAGE = /(?<![\w!])!([^!\s]+)!(?![\w!])/g;
const BOLD = /(?<![\w*])\*(?![\s*])([^*\n]+)(?<!\s)\*(?![\w*])/g;
const STRUCK = /(?<![\w-])-(?![\s-])([^-\n]+)(?<!\s)-(?![\w-])/g;
const INSERTED = /(?<![\w+])\+(?![\s+])([^+\n]+)(?<!\s)\+(?![\w+])/g;
const COLOURED = /%\{[^{}%\n]*\}([^%\n]*)%/g;

function spans(text: string): string {
  return text
    .replace(COLOURED, '$1')
    .replace(BOLD, '**$1**')
    .replace(STRUCK, '~~$1~~')
    .replace(INSERTED, '$1')
    .replace(IMAGE, '![]($1)')
    .replace(LINK, (_, label: string, address: string) => {
      const target = withoutEnd(address, '.,;:!?)');
      return `[${label}](${target})${address.slice(target.length)}`;
    });
}
