/**
 * Atlassian Document Format, which Jira writes descriptions and comments in, as Markdown-like plain text, and back.
 *
 * Pure, and made for hostile documents: what has another shape than expected contributes nothing, and nesting ends
 * somewhere. Text is not escaped: people and link rules are to find what was typed.
 */

/** Deeper nesting than Jira's editor allows; what lies deeper is left out. */
const DEEPEST = 48;

interface Node {
  readonly type: string;
  readonly text: string;
  readonly attrs: Readonly<Record<string, unknown>>;
  readonly marks: readonly Node[];
  readonly content: readonly Node[];
}

/** Text of a document; empty for what is no document. */
export function textOfAdf(document: unknown): string {
  const root = nodeOf(document, 0);
  return root ? blocks(root.content).trim() : '';
}

function nodeOf(value: unknown, depth: number): Node | undefined {
  if (typeof value !== 'object' || value === null || depth > DEEPEST) return undefined;
  const { type, text, attrs, marks, content } = value as Readonly<Record<string, unknown>>;
  if (typeof type !== 'string') return undefined;
  return {
    type,
    text: typeof text === 'string' ? text : '',
    attrs: typeof attrs === 'object' && attrs !== null ? (attrs as Node['attrs']) : {},
    marks: nodesOf(marks, depth),
    content: nodesOf(content, depth),
  };
}

function nodesOf(value: unknown, depth: number): readonly Node[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((each: unknown) => nodeOf(each, depth + 1) ?? []);
}

function attribute({ attrs }: Node, name: string): string {
  const value = Object.hasOwn(attrs, name) ? attrs[name] : undefined;
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** Inline nodes that stand beside blocks, in documents that some client wrote, make a paragraph of their own. */
function blocks(nodes: readonly Node[], separator = '\n\n'): string {
  const texts: string[] = [];
  let line: Node[] = [];
  const endLine = () => {
    if (line.length > 0) texts.push(line.map(inline).join(''));
    line = [];
  };
  for (const node of nodes) {
    const render = Object.hasOwn(BLOCKS, node.type) ? BLOCKS[node.type] : undefined;
    if (!render && Object.hasOwn(INLINES, node.type)) {
      line.push(node);
      continue;
    }
    endLine();
    texts.push(render ? render(node) : blocks(node.content));
  }
  endLine();
  return texts.filter((text) => text.trim() !== '').join(separator);
}

type Render = (node: Node) => string;

const BLOCKS: Readonly<Record<string, Render>> = {
  paragraph: (node) => node.content.map(inline).join(''),
  heading: (node) => `${'#'.repeat(level(node))} ${node.content.map(inline).join('')}`,
  bulletList: (node) => list(node, () => '- '),
  orderedList: (node) => list(node, (at) => `${firstNumber(node) + at}. `),
  taskList: (node) => list(node, (_, item) => (attribute(item, 'state') === 'DONE' ? '- [x] ' : '- [ ] ')),
  decisionList: (node) => list(node, () => '- '),
  codeBlock: fenced,
  blockquote: (node) => prefixed(blocks(node.content), '> ', '> '),
  rule: () => '---',
  blockCard: (node) => attribute(node, 'url'),
  embedCard: (node) => attribute(node, 'url'),
  expand: titled,
  nestedExpand: titled,
  table: (node) => node.content.map(row).join('\n'),
  media: (node) => attribute(node, 'alt'),
  caption: (node) => node.content.map(inline).join(''),
};

const INLINES: Readonly<Record<string, Render>> = {
  text: marked,
  hardBreak: () => '\n',
  mention: (node) => attribute(node, 'text'),
  emoji: (node) => attribute(node, 'text') || attribute(node, 'shortName'),
  inlineCard: (node) => attribute(node, 'url'),
  status: (node) => attribute(node, 'text'),
  date: (node) => day(attribute(node, 'timestamp')),
  placeholder: () => '',
  mediaInline: (node) => attribute(node, 'alt'),
  inlineExtension: (node) => attribute(node, 'text'),
};

function inline(node: Node): string {
  const render = Object.hasOwn(INLINES, node.type) ? INLINES[node.type] : undefined;
  return render ? render(node) : node.content.map(inline).join('');
}

function marked({ text, marks }: Node): string {
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

/** A list may stand directly in a list, between its items: then it is indented like a part of the item before. */
function list(node: Node, bullet: (at: number, item: Node) => string): string {
  let at = 0;
  const lines = node.content.map((item) => {
    if (item.type.endsWith('List')) return prefixed(blocks([item]), '  ', '  ');
    const mark = bullet(at++, item);
    return prefixed(blocks(item.content, '\n'), mark, ' '.repeat(mark.length));
  });
  return lines.join('\n');
}

/** The fence is longer than any in the code, so that nothing in it ends the block. */
function fenced(node: Node): string {
  const code = node.content.map(({ text }) => text).join('');
  const longest = Math.max(2, ...[...code.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${attribute(node, 'language').replace(/[\s`]/g, '')}\n${code}\n${fence}`;
}

function titled(node: Node): string {
  const title = attribute(node, 'title');
  return [title === '' ? '' : `**${title}**`, blocks(node.content)].filter((text) => text !== '').join('\n\n');
}

function row(node: Node): string {
  const cells = node.content.map((cell) => blocks(cell.content, ' ').replace(/\s*\n\s*/g, ' '));
  return `| ${cells.join(' | ')} |`;
}

function day(timestamp: string): string {
  const time = new Date(Number(timestamp || Number.NaN));
  return Number.isNaN(time.getTime()) ? '' : time.toISOString().slice(0, 10);
}

function prefixed(text: string, first: string, rest: string): string {
  return text
    .split('\n')
    .map((line, at) => ((at === 0 ? first : rest) + line).trimEnd())
    .join('\n');
}

const ADDRESS = /(https?:\/\/[^\s<>()[\]"'`]+[^\s<>()[\]"'`.,;:!?])/;

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
    .split(ADDRESS)
    .filter((part) => part !== '')
    .map((part) =>
      ADDRESS.test(part)
        ? { type: 'text', text: part, marks: [{ type: 'link', attrs: { href: part } }] }
        : { type: 'text', text: part },
    );
}
