import type { Command } from 'commander';
import { SyncError } from '../model/errors/sync-error.ts';
import { parseJson } from '../platform/http/parse-json.ts';
import type { Parameters, Routes } from '../workspace-api/contract.ts';
import { readBytes } from './text-input.ts';

type Operations = Parameters<Routes['patchDocument']>['body']['ops'];

/** One flag with its text, in the order of the command line. */
interface Part {
  readonly flag: 'replace' | 'with' | 'delete' | 'before' | 'after' | 'insert';
  readonly text: string;
}

const FLAGS: Readonly<Record<Part['flag'], string>> = {
  replace: 'text to replace; --with follows',
  with: 'the replacement',
  delete: 'text to delete',
  before: 'text before which to insert; --insert follows',
  after: 'text after which to insert; --insert follows',
  insert: 'text to insert',
};

const HELP = `
The command applies operations in the order in which you give them: --replace OLD --with NEW, --delete TEXT,
--before PLACE --insert TEXT, --after PLACE --insert TEXT; each may be repeated. --ops-file takes them as JSON instead:
[{"kind": "replace_text", "target": "OLD", "replacement": "NEW"}, {"kind": "delete_text", "target": "TEXT"},
 {"kind": "insert_before", "anchor": "PLACE", "text": "TEXT"}, {"kind": "insert_after", "anchor": "PLACE", "text": "TEXT"}]`;

/** Adds the flags that name text operations (W49), and returns what reads them once the command line is parsed. */
export function withOperations(command: Command): (opsFile: string | undefined) => Operations {
  const parts: Part[] = [];
  for (const [flag, description] of Object.entries(FLAGS)) {
    command.option(`--${flag} <text>`, description, (text: string) => parts.push({ flag: flag as Part['flag'], text }));
  }
  command
    .option('--ops-file <file>', 'a JSON file with the operations; - reads standard input')
    .addHelpText('after', HELP);
  return (opsFile) => {
    if ((opsFile === undefined) === (parts.length === 0)) throw usage('give operations as flags, or --ops-file');
    return opsFile === undefined ? operationsOf(parts) : readOperations(opsFile);
  };
}

/** Pairs each place with the text that follows it. Throws `usage`. */
function operationsOf(parts: readonly Part[]): Operations {
  const operations: Operations = [];
  for (let at = 0; at < parts.length; at++) {
    const { flag, text } = parts[at]!;
    if (flag === 'delete') {
      operations.push({ kind: 'delete_text', target: text });
      continue;
    }
    const expected = PARTNERS[flag];
    const partner = parts[++at];
    if (expected === undefined)
      throw usage(`--${flag} has nothing to apply to: it follows --replace, --before or --after`);
    if (partner?.flag !== expected) throw usage(`--${flag} needs --${expected} right after it`);
    operations.push(pairOf(flag, text, partner.text));
  }
  return operations;
}

const PARTNERS: Readonly<Partial<Record<Part['flag'], Part['flag']>>> = {
  replace: 'with',
  before: 'insert',
  after: 'insert',
};

function pairOf(flag: Part['flag'], place: string, text: string): Operations[number] {
  if (flag === 'replace') return { kind: 'replace_text', target: place, replacement: text };
  return { kind: flag === 'before' ? 'insert_before' : 'insert_after', anchor: place, text };
}

const STANDARD_INPUT = 0;

/** A list, or an object with the list as `ops`. What it holds is checked by the workspace. Throws `usage`. */
function readOperations(file: string): Operations {
  const bytes = file === '-' ? readBytes(STANDARD_INPUT, 'standard input') : readBytes(file, file);
  let value: unknown;
  try {
    value = parseJson(bytes);
  } catch (error) {
    throw usage(`${file} is not JSON: ${(error as Error).message}`);
  }
  const list = Array.isArray(value) ? value : (value as { ops?: unknown } | null)?.ops;
  if (!Array.isArray(list)) throw usage(`${file} contains no list of operations`);
  return list as Operations;
}

function usage(message: string): SyncError {
  return new SyncError('usage', message);
}
