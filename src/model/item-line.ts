import { cut } from './text-limits.ts';

const LINE = 'Source: ';
/** A longer one names no item. */
const LONGEST_LINE = 2_200;

/** The last line of a task's description: where the item is that the task was made for. */
export function itemLine({
  url,
  connector,
  identifier,
}: {
  url?: string;
  connector: string;
  identifier: string;
}): string {
  return `${LINE}${url ?? `${connector} ${identifier}`}`;
}

/** The description with that line at its end. The description is cut, never the line. */
export function withItemLine(description: string | null | undefined, line: string, longest: number): string {
  const text = description?.trimEnd() ?? '';
  return text === '' ? line : `${cut(text, longest - line.length - 2)}\n\n${line}`;
}

/** The line that names the item of a task, at the end of its description; empty where there is none. */
export function itemLineIn(description: string | null | undefined): string {
  const line = lastLine(description);
  return line.startsWith(LINE) && line.length <= LONGEST_LINE ? line : '';
}

/** What such a line names. */
export function addressIn(line: string): string {
  return line.slice(LINE.length);
}

/** More lines name no item. */
const MOST_LINES = 8;

/** What may be such lines in a text that others may have edited or marked up, one a line; nothing else of the text. */
export function itemLinesIn(text: string): string {
  const lines: string[] = [];
  for (let at = text.indexOf(LINE); at !== -1 && lines.length < MOST_LINES; at = text.indexOf(LINE, at + 1)) {
    const [line = ''] = text.slice(at, at + LONGEST_LINE).split('\n', 1);
    lines.push(line);
  }
  return lines.join('\n');
}

/** The last line of a text, without blanks around it; empty where there is none. */
export function lastLine(text: string | null | undefined): string {
  const end = text?.trimEnd() ?? '';
  return end.slice(end.lastIndexOf('\n') + 1).trim();
}
