import { nearest } from '../lib/nearest.ts';
import { durationText } from '../lib/quantities.ts';
import type { Schedule } from '../lib/scheduler.ts';
import { type ConnectionConfig, type ConnectorOptions, connectionKeys } from './schema.ts';
import { type Validated, validate } from './validate.ts';
import { shortestPause } from './values.ts';
import type { ConfigDocument, Path, Problem } from './yaml-document.ts';

interface ConnectionInput {
  readonly document: ConfigDocument;
  readonly connectors: readonly ConnectorOptions[];
  /** The workspace's setting. */
  readonly mirror: ConnectionConfig['mirror'];
  readonly name: string;
  readonly value: unknown;
}

interface CheckedConnection {
  readonly config?: ConnectionConfig;
  readonly problems: readonly Problem[];
}

const COMMON = Object.keys(connectionKeys.shape);
const DEFAULT_PAUSE = 5 * 60_000;

/** Checks one connection: the keys that all have, and the connector's own against the connector's schema. */
export function connectionConfig(input: ConnectionInput): CheckedConnection {
  const { document, name, value } = input;
  const path = ['connections', name];
  const common = validate(connectionKeys, { document, path, value: isMapping(value) ? pick(value, true) : value });
  if (!isMapping(value)) return { problems: common.problems };
  const found = findConnector(input, path);
  if (!found.connector) return { problems: [...common.problems, ...found.problems] };
  const options = validate(found.connector.options, { document, path, value: pick(value, false), otherKeys: COMMON });
  const problems = [...common.problems, ...options.problems];
  // Options without a value and without a problem: a variable is not set, which the document says.
  if (problems.length > 0 || !common.data || options.data === undefined) return { problems };
  const pause = pollOf(common.data.poll, found.connector, options, { document, path });
  if ('problem' in pause) return { problems: [pause.problem] };
  const { connector, webhookSecrets, mirror = input.mirror, writeBack } = common.data;
  const { sweep = pause.poll === 'off' ? 'off' : DAILY } = common.data;
  return {
    config: { name, connector, options: options.data, webhookSecrets, poll: pause.poll, sweep, mirror, writeBack },
    problems: [],
  };
}

const DAILY: Schedule = { everyMs: 86_400_000 };

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The keys that all connections have, or all other keys. */
function pick(value: Readonly<Record<string, unknown>>, common: boolean): unknown {
  return Object.fromEntries(Object.entries(value).filter(([key]) => COMMON.includes(key) === common));
}

function findConnector({ document, connectors, value }: ConnectionInput, path: Path) {
  const id = (value as { connector?: unknown }).connector;
  const connector = connectors.find((candidate) => candidate.id === id);
  const place = [...path, 'connector'];
  if (connector || typeof id !== 'string' || document.isUnresolved(place)) return { connector, problems: [] };
  const ids = connectors.map((candidate) => candidate.id).sort();
  const message = `${place.join('.')}: unknown connector; there are: ${ids.join(', ')}`;
  return { problems: [{ ...document.place(place), message, suggestion: nearest(id, ids) }] };
}

interface Where {
  readonly document: ConfigDocument;
  readonly path: Path;
}

/** The schedule, not faster than the vendor allows; without one, the default or the fastest that is allowed. */
function pollOf(
  poll: Schedule | undefined,
  connector: ConnectorOptions,
  options: Validated<unknown>,
  { document, path }: Where,
): { readonly poll: Schedule } | { readonly problem: Problem } {
  const shortest = connector.shortestPoll?.(options.data as never) ?? 0;
  if (poll === undefined) return { poll: { everyMs: Math.max(DEFAULT_PAUSE, shortest) } };
  if (poll === 'off' || shortestPause(poll) >= shortest) return { poll };
  const place = [...path, 'poll'];
  const message = `${place.join('.')}: too often: with these credentials ${connector.title} allows a poll every ${durationText(shortest)}`;
  return { problem: { ...document.place(place), message } };
}
