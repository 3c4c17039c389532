import { cut, LONGEST_SOURCE } from '../../model/text-limits.ts';
import { ADDRESS_IN_TEXT } from '../kit/payload.ts';

/**
 * Converts the Atlassian Document Format, the format of descriptions and comments in Jira, to Markdown-like plain text, and back.
 *
 * Pure, and made for hostile documents: parts of an unexpected shape are ignored, and length, the number of nodes, nesting and
 * indentation are limited. Text is not escaped, so that people and link rules find what was typed.
 */

/** Deeper nesting than Jira's editor allows; deeper parts are left out. */
const DEEPEST = 48;
/** Jira accepts 32 767 characters of text, so this is more than any of its documents has; the rest is left out. */
const MOST_NODES = 50_000;
/** Quotes and lists nested deeper are written at this depth, because each level writes all its lines again. */
const DEEPEST_INDENT = 8;

interface Node {
  readonly type: string;
  readonly text: string;
  readonly attrs: Readonly<Record<string, string>>;
  /** Attributes of a smart link that has linked data in place of an address. */
  readonly data: Readonly<Record<string, string>>;
  readonly marks: readonly Node[];
  readonly content: readonly Node[];
}

/** Returns the text of a document; empty if it is none. */
export function textOfAdf(document: unknown): string {
  const root = nodeOf(document, { nodes: MOST_NODES, text: LONGEST_SOURCE, depth: 0 });
  return root ? cut(withoutLineEnds(blocks(root.content)).trim(), LONGEST_SOURCE) : '';
}

/** The remaining limits of a document. */
interface Room {
  nodes: number;
  text: number;
  depth: number;
}

function nodeOf(value: unknown, room: Room): Node | undefined {
  if (typeof value !== 'object' || value === null || room.depth > DEEPEST || room.nodes-- <= 0) return undefined;
  const { type, text, attrs, marks, content } = value as Readonly<Record<string, unknown>>;
  if (typeof type !== 'string') return undefined;
  return {
    type,
    text: typeof text === 'string' ? withinRoom(text, room) : '',
    attrs: attributesOf(attrs, room),
    data: attributesOf((attrs as Readonly<Record<string, unknown>> | null | undefined)?.['data'], room),
    marks: nodesOf(marks, room),
    content: nodesOf(content, room),
  };
}

function nodesOf(value: unknown, room: Room): readonly Node[] {
  const nodes: Node[] = [];
  if (!Array.isArray(value)) return nodes;
  room.depth++;
  for (const each of value as readonly unknown[]) {
    if (room.nodes <= 0) break;
    const node = nodeOf(each, room);
    if (node) nodes.push(node);
  }
  room.depth--;
  return nodes;
}

/** The attributes that are rendered. */
const ATTRIBUTES = [
  'id',
  'name',
  '__fileName',
  'text',
  'url',
  'alt',
  'href',
  'title',
  'state',
  'level',
  'order',
  'language',
  'timestamp',
  'shortName',
];

function attributesOf(given: unknown, room: Room): Node['attrs'] {
  const attrs: Record<string, string> = {};
  if (typeof given !== 'object' || given === null) return attrs;
  for (const name of ATTRIBUTES) {
    const value = Object.hasOwn(given, name) ? (given as Readonly<Record<string, unknown>>)[name] : undefined;
    if (typeof value === 'string' || typeof value === 'number') attrs[name] = withinRoom(String(value), room);
  }
  return attrs;
}

function withinRoom(text: string, room: Room): string {
  const within = text.slice(0, Math.max(0, room.text));
  room.text -= within.length;
  return within;
}

function attribute({ attrs }: Node, name: string): string {
  return attrs[name] ?? '';
}

/** Inline nodes beside blocks, as some clients write them, make a paragraph of their own. */
function blocks(nodes: readonly Node[], separator = '\n\n', indent = 0): string {
  const texts: string[] = [];
  let line: Node[] = [];
  const endLine = () => {
    if (line.length > 0) texts.push(inlines(line));
    line = [];
  };
  for (const node of nodes) {
    const render = Object.hasOwn(BLOCKS, node.type) ? BLOCKS[node.type] : undefined;
    if (!render && Object.hasOwn(INLINES, node.type)) {
      line.push(node);
      continue;
    }
    endLine();
    texts.push(render ? render(node, indent) : blocks(node.content, '\n\n', indent));
  }
  endLine();
  return texts.filter((text) => text.trim() !== '').join(separator);
}

/** `indent`: the number of quotes and lists around it. */
type Render = (node: Node, indent: number) => string;

const BLOCKS: Readonly<Record<string, Render>> = {
  paragraph: ({ content }) => inlines(content),
  heading: (node) => `${'#'.repeat(level(node))} ${inlines(node.content)}`,
  bulletList: (node, indent) => list(node, indent, () => '- '),
  orderedList: (node, indent) => list(node, indent, (at) => `${firstNumber(node) + at}. `),
  taskList: (node, indent) =>
    list(node, indent, (_, item) => (attribute(item, 'state') === 'DONE' ? '- [x] ' : '- [ ] ')),
  decisionList: (node, indent) => list(node, indent, () => '- '),
  codeBlock: fenced,
  blockquote: (node, indent) => prefixed(blocks(node.content, '\n\n', indent + 1), '> ', '> ', indent),
  rule: () => '---',
  blockCard: card,
  embedCard: card,
  expand: titled,
  nestedExpand: titled,
  table: (node) => node.content.map(row).join('\n'),
  media,
  caption: ({ content }) => inlines(content),
};

const INLINES: Readonly<Record<string, Render>> = {
  text: marked,
  hardBreak: () => '\n',
  mention: (node) => attribute(node, 'text') || (attribute(node, 'id') && `@${attribute(node, 'id')}`),
  emoji: (node) => attribute(node, 'text') || attribute(node, 'shortName'),
  inlineCard: card,
  status: (node) => attribute(node, 'text'),
  date: (node) => day(attribute(node, 'timestamp')),
  placeholder: () => '',
  mediaInline: media,
  inlineExtension: (node) => attribute(node, 'text'),
};

/** The address of a smart link, or the address or name in its linked data. */
function card({ attrs, data }: Node): string {
  return attrs['url'] || data['url'] || data['name'] || '';
}

/** The alternative text of a picture or file, or its name or address, with the address that it links to, or a trace of it. */
function media(node: Node): string {
  const name = attribute(node, 'alt') || attribute(node, '__fileName') || attribute(node, 'url');
  const links = node.marks.filter(({ type }) => type === 'link');
  if (name !== '') return withMarks(name, links);
  return links.map((link) => attribute(link, 'href')).join(' ') || '[attachment]';
}

/** The text of inline nodes. */
function inlines(nodes: readonly Node[]): string {
  const texts: string[] = [];
  for (let at = 0; at < nodes.length; ) {
    let end = at + 1;
    while (end < nodes.length && isSplitName(nodes[end - 1] as Node, nodes[end] as Node)) end++;
    texts.push(end === at + 1 ? inline(nodes[at] as Node) : joined(nodes.slice(at, end)));
    at = end;
  }
  return texts.join('');
}

/** A character of keys, numbers, paths and addresses. */
const IN_NAME = /[A-Za-z0-9_#/-]/;
const LONGEST_NAME = 64;

/**
 * Whether a mark begins or ends within a possible name: those have a digit or a slash. Code is no prose, so it is never part of a
 * name.
 */
function isSplitName(left: Node, right: Node): boolean {
  const isProse = ({ type, marks }: Node) => type === 'text' && !marks.some((mark) => mark.type === 'code');
  if (!isProse(left) || !isProse(right)) return false;
  const [head, tail] = [nameAtEnd(left.text), nameAtBegin(right.text)];
  return head !== '' && tail !== '' && /[0-9/]/.test(head + tail);
}

function nameAtEnd(text: string): string {
  let start = text.length;
  while (text.length - start < LONGEST_NAME && IN_NAME.test(text.charAt(start - 1))) start--;
  return text.slice(start);
}

function nameAtBegin(text: string): string {
  let end = 0;
  while (end < LONGEST_NAME && IN_NAME.test(text.charAt(end))) end++;
  return text.slice(0, end);
}

/** Leaves out marks within a name, because link rules could not find the name there. Keeps addresses. */
function joined(nodes: readonly Node[]): string {
  const text = nodes.map((node) => node.text).join('');
  const links = nodes.flatMap(({ marks }) =>
    marks.map((mark) => (mark.type === 'link' ? attribute(mark, 'href') : '')),
  );
  const targets = [...new Set(links)].filter((target) => target !== '' && target !== text);
  return targets.length === 0 ? text : `${text} (${targets.join(' ')})`;
}

function inline(node: Node): string {
  const render = Object.hasOwn(INLINES, node.type) ? INLINES[node.type] : undefined;
  return render ? render(node, 0) : inlines(node.content);
}

function marked({ text, marks }: Node): string {
  return withMarks(text, marks);
}

function withMarks(text: string, marks: readonly Node[]): string {
  return marks.reduce((inner, mark) => {
    if (mark.type === 'code') return `\`${inner}\``;
    if (mark.type === 'strong') return `**${inner}**`;
    if (mark.type === 'em') return `_${inner}_`;
    if (mark.type === 'strike') return `~~${inner}~~`;
    const target = mark.type === 'link' ? attribute(mark, 'href') : '';
    return target === '' || target === text ? inner : `[${inner}](${target})`;
  }, text);
}

function level(node: Node): number {
  const given = Number(attribute(node, 'level'));
  return given >= 1 && given <= 6 ? Math.trunc(given) : 1;
}

function firstNumber(node: Node): number {
  const given = Number(attribute(node, 'order') || 1);
  return Number.isSafeInteger(given) && given >= 0 ? given : 1;
}

/** A list may be a direct child of a list, between its items: it is then indented like a part of the previous item. */
function list(node: Node, indent: number, bullet: (at: number, item: Node) => string): string {
  let at = 0;
  const lines = node.content.map((item) => {
    if (item.type.endsWith('List')) return prefixed(blocks([item], '\n\n', indent + 1), '  ', '  ', indent);
    const mark = bullet(at++, item);
    return prefixed(blocks(item.content, '\n', indent + 1), mark, ' '.repeat(mark.length), indent);
  });
  return lines.join('\n');
}

/** The fence is longer than any in the code, so that nothing in it ends the block. */
function fenced(node: Node): string {
  const code = node.content.map(({ text }) => text).join('');
  let fence = '```';
  for (const [run] of code.matchAll(/`+/g)) if (run.length >= fence.length) fence = `${run}\``;
  return `${fence}${attribute(node, 'language').replace(/[\s`]/g, '')}\n${code}\n${fence}`;
}

function titled(node: Node, indent: number): string {
  const title = attribute(node, 'title');
  return [title === '' ? '' : `**${title}**`, blocks(node.content, '\n\n', indent)]
    .filter((text) => text !== '')
    .join('\n\n');
}

function row(node: Node): string {
  const cells = node.content.map((cell) => onOneLine(blocks(cell.content, ' ')));
  return `| ${cells.join(' | ')} |`;
}

function onOneLine(text: string): string {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '').join(' ');
}

function day(timestamp: string): string {
  const time = new Date(Number(timestamp || Number.NaN));
  return Number.isNaN(time.getTime()) ? '' : time.toISOString().slice(0, 10);
}

function prefixed(text: string, first: string, rest: string, indent: number): string {
  return indent < DEEPEST_INDENT ? first + text.replaceAll('\n', `\n${rest}`) : text;
}

/** Prefixes precede empty lines too. */
function withoutLineEnds(text: string): string {
  return text
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** A document of plain text: an empty line ends a paragraph, addresses are links. */
export function adfOfText(text: string): object {
  const paragraphs = text
    .split(/\n{2,}/)
    .map((paragraph) => paragraph.split('\n').flatMap((line, at) => (at === 0 ? spans(line) : [BREAK, ...spans(line)])))
    .filter((content) => content.length > 0);
  return {
    type: 'doc',
    version: 1,
    content: paragraphs.map((content) => ({ type: 'paragraph', content })),
  };
}

const BREAK = { type: 'hardBreak' };

function spans(line: string): object[] {
  return line
    .split(ADDRESS_IN_TEXT)
    .filter((part) => part !== '')
    .map((part) =>
      ADDRESS_IN_TEXT.test(part)
        ? { type: 'text', text: part, marks: [{ type: 'link', attrs: { href: part } }] }
        : { type: 'text', text: part },
    );
}
