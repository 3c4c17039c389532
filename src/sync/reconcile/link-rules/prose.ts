/**
 * Replaces with blanks all parts of a Markdown text that are not its author's own prose: fenced and inline code,
 * quotes, HTML comments. The length stays the same, so that a position in the result is the same position in the text.
 * Takes one pass for each kind, for any text.
 */
export function proseOf(markdown: string): string {
  return withoutInlineCode(withoutElements(withoutComments(withoutBlocks(markdown))));
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const QUOTE = /^ {0,3}>/;

/** Blanks fenced code, even if the fence is never closed, and quoted lines. */
function withoutBlocks(markdown: string): string {
  let fence: string | undefined;
  return markdown
    .split('\n')
    .map((line) => {
      const mark = FENCE.exec(line)?.[1];
      if (fence !== undefined) {
        if (mark?.startsWith(fence) && line.trim() === mark) fence = undefined;
        return blank(line);
      }
      fence = mark;
      return mark !== undefined || QUOTE.test(line) ? blank(line) : line;
    })
    .join('\n');
}

function withoutComments(text: string): string {
  const pieces: string[] = [];
  let at = 0;
  for (let start = text.indexOf('<!--'); start !== -1; start = text.indexOf('<!--', at)) {
    const close = text.indexOf('-->', start + 4);
    const end = close === -1 ? text.length : close + 3;
    pieces.push(text.slice(at, start), blank(text.slice(start, end)));
    at = end;
  }
  return pieces.join('') + text.slice(at);
}

const TAG = /<(\/?)(?:blockquote|pre|code)\b[^<>]{0,200}>/gi;

/** Blanks code and quotes that are written as HTML, at any nesting. */
function withoutElements(text: string): string {
  const pieces: string[] = [];
  let at = 0;
  let depth = 0;
  for (const { 0: tag, 1: slash, index } of text.matchAll(TAG)) {
    if (slash === '') {
      if (depth++ > 0) continue;
      pieces.push(text.slice(at, index));
      at = index;
    } else if (depth > 0 && --depth === 0) {
      const end = index + tag.length;
      pieces.push(blank(text.slice(at, end)));
      at = end;
    }
  }
  const rest = text.slice(at);
  return pieces.join('') + (depth > 0 ? blank(rest) : rest);
}

/**
 * Blanks inline code: a run of backticks opens a span, and the next run of the same length in the same paragraph closes
 * it.
 */
function withoutInlineCode(text: string): string {
  return text
    .split(/(\n[ \t]*\n)/)
    .map(withoutSpans)
    .join('');
}

function withoutSpans(paragraph: string): string {
  if (!paragraph.includes('`')) return paragraph;
  const runs = [...paragraph.matchAll(/`+/g)].map(({ 0: { length }, index }) => ({ length, index }));
  const next = nextOfSameLength(runs.map(({ length }) => length));
  const pieces: string[] = [];
  let at = 0;
  for (let run = 0; run < runs.length; ) {
    const close = next[run];
    if (close === undefined) {
      run++;
      continue;
    }
    const { index } = runs[run] as { index: number };
    const { index: from, length } = runs[close] as { index: number; length: number };
    pieces.push(paragraph.slice(at, index), blank(paragraph.slice(index, from + length)));
    at = from + length;
    run = close + 1;
  }
  return pieces.join('') + paragraph.slice(at);
}

function nextOfSameLength(lengths: readonly number[]): (number | undefined)[] {
  const latest = new Map<number, number>();
  const next: (number | undefined)[] = [];
  for (let run = lengths.length - 1; run >= 0; run--) {
    const length = lengths[run] as number;
    next[run] = latest.get(length);
    latest.set(length, run);
  }
  return next;
}

/** Keeps the line breaks. */
function blank(text: string): string {
  return text.replace(/[^\n]/g, ' ');
}
