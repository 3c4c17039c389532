import { styleText } from 'node:util';
import { asTyped } from '../lib/own-command.ts';

type Fields = Readonly<Record<string, unknown>>;

const COLOURS = { debug: 'gray', info: 'green', warn: 'yellow', error: 'red' } as const;

/**
 * A line of the log for a person at a terminal: time, level, message, fields, and the remedy of an error below. What is in it is
 * quoted as in JSON, so that nothing of it acts on the terminal.
 */
export function prettyLine(line: string): string {
  const { level, time, msg, error, err, ...fields } = JSON.parse(line) as Fields;
  const name = String(level) as keyof typeof COLOURS;
  const head = `${String(time).slice(11, 23)} ${coloured(COLOURS[name] ?? 'gray', name.toUpperCase().padEnd(5))}`;
  const failure = (error ?? err) as Fields | string | undefined;
  const parts = [`${head} ${harmless(String(msg))}`, ...pairsOf(fields), ...messageOf(failure)];
  return `${parts.join('  ')}${remedyOf(failure)}\n`;
}

/** Without colours where the terminal, or `NO_COLOR`, says so. */
function coloured(colour: (typeof COLOURS)[keyof typeof COLOURS], text: string): string {
  return styleText(colour, text, { stream: process.stderr });
}

function pairsOf(fields: Fields): string[] {
  return Object.entries(fields).map(([name, value]) => `${harmless(name)}=${plain(value)}`);
}

function plain(value: unknown): string {
  const isWord = typeof value === 'string' && /^[\w./:#@+-]+$/.test(value);
  return isWord ? value : harmless(JSON.stringify(value) ?? 'undefined');
}

function messageOf(error: Fields | string | undefined): string[] {
  if (error === undefined) return [];
  if (typeof error !== 'object') return [plain(error)];
  return [harmless(`${String(error['code'] ?? error['name'])}: ${String(error['message'])}`)];
}

function remedyOf(error: Fields | string | undefined): string {
  if (typeof error !== 'object') return '';
  const below = [error['hint'], error['stack']].filter((text) => typeof text === 'string');
  return below
    .flatMap((text) => text.split('\n'))
    .map((text) => `\n             ${harmless(asTyped(text.trim()))}`)
    .join('');
}

function harmless(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd');
}
