import { durationText } from '../lib/quantities.ts';
import type { Schedule } from '../lib/scheduler.ts';
import { nearest } from '../lib/text.ts';
import { type ConnectionConfig, type ConnectorOptions, connectionKeys } from './schema.ts';
import { validate } from './validate.ts';
import { shortestPause } from './values.ts';
import type { ConfigDocument, Problem } from './yaml-document.ts';

const COMMON = Object.keys(connectionKeys.shape);
const DEFAULT_PAUSE = 5 * 60_000;
const DAILY: Schedule = { everyMs: 86_400_000 };

/**
 * Checks one connection: the keys that all have, and the connector's own against the connector's schema.
 *
 * @param workspaceMirror the setting of the workspace, for a connection without one
 */
export function connectionConfig(
  document: ConfigDocument,
  { name, value }: { readonly name: string; readonly value: unknown },
  connectors: readonly ConnectorOptions[],
  workspaceMirror: ConnectionConfig['mirror'],
): { readonly config?: ConnectionConfig; readonly problems: readonly Problem[] } {
  const path = ['connections', name];
  if (!isMapping(value)) return { problems: validate(connectionKeys, { document, path, value }).problems };
  const common = validate(connectionKeys, { document, path, value: pick(value, true) });
  const connector = connectors.find(({ id }) => id === value['connector']);
  if (!connector) return { problems: [...common.problems, ...unknownConnector(document, path, value, connectors)] };
  const options = validate(connector.options, { document, path, value: pick(value, false), otherKeys: COMMON });
  const problems = [...common.problems, ...options.problems];
  // Options without a value and without a problem: a variable is not set, which the document says.
  if (problems.length > 0 || !common.data || options.data === undefined) return { problems };
  const shortest = connector.shortestPoll?.(options.data as never) ?? 0;
  const { poll = { everyMs: Math.max(DEFAULT_PAUSE, shortest) }, ...own } = common.data;
  if (poll !== 'off' && shortestPause(poll) < shortest) {
    const place = [...path, 'poll'];
    const message = `${place.join('.')}: too often: with these credentials ${connector.title} allows a poll every ${durationText(shortest)}`;
    return { problems: [{ ...document.place(place), message }] };
  }
  const { sweep = poll === 'off' ? 'off' : DAILY, mirror = workspaceMirror } = own;
  return { config: { ...own, name, options: options.data, poll, sweep, mirror }, problems: [] };
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the keys that all connections have, or all other keys. */
function pick(value: Readonly<Record<string, unknown>>, common: boolean): unknown {
  return Object.fromEntries(Object.entries(value).filter(([key]) => COMMON.includes(key) === common));
}

function unknownConnector(
  document: ConfigDocument,
  path: readonly string[],
  { connector: id }: Readonly<Record<string, unknown>>,
  connectors: readonly ConnectorOptions[],
): readonly Problem[] {
  const place = [...path, 'connector'];
  if (typeof id !== 'string' || document.isUnresolved(place)) return [];
  const ids = connectors.map((each) => each.id).sort();
  const message = `${place.join('.')}: unknown connector; there are: ${ids.join(', ')}`;
  return [{ ...document.place(place), message, suggestion: nearest(id, ids) }];
}
