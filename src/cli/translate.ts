import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { schemaOf } from '../config/generated-files.ts';
import type { JsonSchema } from '../config/json-schema.ts';
import type { Connector, Translation } from '../connectors/connector.ts';
import { connectors } from '../connectors/registry.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import { JsonError, parseJson } from '../http/parse-json.ts';
import type { DeliverySource } from '../model/delivery.ts';
import type { Item } from '../model/item.ts';
import { unknownName } from '../operator/named.ts';
import { type Exit, oneOf, print, type Setting, say } from './setting.ts';
import { printable } from './words.ts';
import { gather } from './workspace-command.ts';

const HELP = `
The command sends no request and reads no configuration: every repository counts as in scope, and options are off unless --with
switches them on. It prints one line per file, in the order of the files. If it cannot read a file, or the payload is malformed
(the daemon would quarantine it), it prints the reason there and on standard error, goes on, and ends with exit code 1.

Examples:
  worksync translate gitlab merge-request.json --json
  worksync translate github --event pull_request_review *.json --json
  worksync translate gitlab --with issues issue.json
  worksync translate bitbucket - < delivery.json`;

interface Given {
  readonly event?: string;
  readonly source: DeliverySource;
  readonly host?: string;
  readonly with?: readonly string[];
  readonly json?: boolean;
}

const STANDARD_INPUT = 0;

/** `worksync translate`: what payloads become. */
export function addTranslate(program: Command, { scrubber }: Setting, exit: Exit): void {
  program
    .command('translate')
    .description('print what captured payloads become: items, references to items, or nothing, and why')
    .argument('<connector>', `one of: ${connectors.map(({ id }) => id).join(', ')}`)
    .argument('<files...>', 'files that hold one payload each; - reads standard input')
    .option('--event <name>', "the event as the vendor's header names it (default: guessed from the payload)")
    .option(
      '--source <source>',
      'source of the payload: webhook, poll or fetch; the last two need --event too',
      oneOf(['webhook', 'poll', 'fetch']),
      'webhook',
    )
    .option('--host <host>', "host that sent it (default: the vendor's public one)")
    .option('--with <option>', "switches on one of the connection's options, such as issues; may be repeated", gather)
    .option('--json', 'print one JSON object per file')
    .addHelpText('after', HELP)
    .exitOverride()
    .action((id: string, files: readonly string[], given: Given) => {
      const look = viewOf(id, given);
      let failed = false;
      for (const file of files) {
        const seen = look(file);
        if (seen.error) say(scrubber.scrub(`worksync: ${file}: ${printable(seen.error)}`));
        failed ||= seen.error !== undefined;
        print(given.json ? JSON.stringify(asJson(file, seen.translation)) : describe(file, seen.translation));
      }
      exit(failed ? 1 : 0);
    });
}

interface Seen {
  readonly translation: Translation;
  /** Why nothing could be made of it. */
  readonly error?: string;
}

/** Throws `usage`. */
function viewOf(id: string, { event, source, host, with: on = [] }: Given): (file: string) => Seen {
  const connector = connectorOf(id);
  const options = { ...(connector.unrestricted!(host) as object), ...switchedOn(connector, on) };
  if (source !== 'webhook' && event === undefined) throw new SyncError('usage', `--source ${source} needs --event too`);
  return (file) => {
    try {
      const body = readFileSync(file === '-' ? STANDARD_INPUT : file);
      const named = event ?? connector.eventOf!(parseJson(body));
      if (named === undefined) return { translation: { outcome: 'ignored', reason: 'event_not_recognised' } };
      return { translation: connector.translate({ source, event: named, body }, options) };
    } catch (thrown) {
      const { message } = asSyncError(thrown);
      return { error: message, translation: { outcome: 'ignored', reason: `${whyOf(thrown)}: ${message}` } };
    }
  };
}

/** Throws `usage`. */
function switchedOn({ id, options }: Connector<unknown>, names: readonly string[]): Readonly<Record<string, true>> {
  const known = Object.entries(schemaOf(options).properties ?? {}).filter(
    ([, value]) => (value as JsonSchema).type === 'boolean',
  );
  const unknown = names.find((name) => !known.some(([key]) => key === name));
  if (unknown === undefined) return Object.fromEntries(names.map((name) => [name, true]));
  const choice = known.length === 0 ? `${id} has none` : `expected one of ${known.map(([key]) => key).join(', ')}`;
  throw new SyncError('usage', `--with ${unknown}: ${choice}`);
}

function whyOf(thrown: unknown): string {
  if (thrown instanceof SyncError) return thrown.code;
  return thrown instanceof JsonError ? 'delivery_malformed' : 'file_unreadable';
}

/** Throws `usage`. */
function connectorOf(id: string): Connector<unknown> {
  const connector = connectors.find((each) => each.id === id);
  if (connector?.unrestricted && connector.eventOf) return connector;
  const known = connectors.filter(({ unrestricted, eventOf }) => unrestricted && eventOf).map((each) => each.id);
  throw unknownName('connector', id, known);
}

function asJson(file: string, translation: Translation) {
  const { outcome } = translation;
  if (outcome === 'ignored') return { file, outcome, reason: translation.reason, items: [] };
  const items: readonly Item[] = outcome === 'items' ? translation.items : [];
  return { file, outcome, items, ...(translation.references && { references: translation.references }) };
}

function describe(file: string, translation: Translation): string {
  if (translation.outcome === 'ignored') return `${file}: ignored, ${printable(translation.reason)}`;
  const items = translation.outcome === 'items' ? translation.items.map(describeItem) : [];
  const references = (translation.references ?? []).map(({ key }) => `to be fetched: ${printable(key)}`);
  return [`${file}:`, ...[...items, ...references].map((line) => `  ${line}`)].join('\n');
}

function describeItem(item: Item): string {
  const { key, kind: _kind, connector: _connector, ...fields } = item;
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${printable(JSON.stringify(value))}`);
  return [printable(key), ...lines.map((line) => `    ${line}`)].join('\n');
}
