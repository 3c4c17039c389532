import { readFileSync } from 'node:fs';
import { unknownName } from '../../admin/named.ts';
import type { Connector, Translation } from '../../connectors/connector.ts';
import { connectors } from '../../connectors/registry.ts';
import type { DeliveryOrigin } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { Item } from '../../model/item.ts';
import { type JsonSchema, schemaOf } from '../../platform/config/generated-files.ts';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { diskFiles } from '../../platform/lib/regular-files.ts';
import { printable } from '../../platform/lib/text.ts';

const STANDARD_INPUT = 0;
/** Vendors send at most 25 MiB. */
const MAX_BYTES = 64 * MEBIBYTE;

export interface Given {
  readonly event?: string;
  readonly source: DeliveryOrigin;
  readonly host?: string;
  readonly with?: readonly string[];
  readonly json?: boolean;
}

export interface Seen {
  readonly translation: Translation;
  /** The reason why it could not be read. */
  readonly error?: string;
}

/** Throws `usage`. */
export function viewOf(id: string, { event, source, host, with: on = [] }: Given): (file: string) => Seen {
  const connector = connectorOf(id);
  const options = { ...(connector.unrestricted!(host) as object), ...switchedOn(connector, on) };
  if (source !== 'webhook' && event === undefined) throw new SyncError('usage', `--source ${source} needs --event too`);
  return (file) => {
    try {
      const body = file === '-' ? readFileSync(STANDARD_INPUT) : diskFiles.read(file, MAX_BYTES).bytes;
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

export function asJson(file: string, translation: Translation) {
  const { outcome } = translation;
  if (outcome === 'ignored') return { file, outcome, reason: translation.reason, items: [] };
  const items: readonly Item[] = outcome === 'items' ? translation.items : [];
  const { references, unread } = { unread: undefined, ...translation };
  return { file, outcome, items, ...(references && { references }), ...(unread && { unread }) };
}

export function describe(file: string, translation: Translation): string {
  if (translation.outcome === 'ignored') return `${file}: ignored, ${printable(translation.reason)}`;
  const items = translation.outcome === 'items' ? translation.items.map(describeItem) : [];
  const references = (translation.references ?? []).map(({ key }) => `to be fetched: ${printable(key)}`);
  const unread = translation.outcome === 'items' ? (translation.unread ?? []) : [];
  const missed = unread.length === 0 ? [] : [`of another type, not read: ${printable(unread.join(', '))}`];
  return [`${file}:`, ...[...items, ...references, ...missed].map((line) => `  ${line}`)].join('\n');
}

function describeItem(item: Item): string {
  const { key, kind: _kind, connector: _connector, ...fields } = item;
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${printable(JSON.stringify(value))}`);
  return [printable(key), ...lines.map((line) => `    ${line}`)].join('\n');
}
