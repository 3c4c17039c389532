import { createHash } from 'node:crypto';
import { fencedHttpClient } from '../cluster/fenced-http-client.ts';
import type { Lease } from '../cluster/holder.ts';
import type { Connector } from '../connectors/connector.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import type { Item } from '../model/item.ts';
import type { ConnectionConfig, WorkspaceConfig } from '../platform/config/schema.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Meter } from '../platform/lib/meter.ts';
import type { Store } from '../store/database.ts';
import type { ActiveConnection } from '../sync/intake/active-connection.ts';
import type { Grants } from '../sync/intake/grants.ts';
import { addressById, type NameBindings, openNameBindings } from '../sync/intake/name-bindings.ts';
import { type Pauses, recordRateLimits, withRateLimitGuard } from '../sync/intake/pauses.ts';
import type { Source, Sources, WorkerTranslator } from '../sync/reconcile/context.ts';
import { createRules, type Rules } from '../sync/reconcile/item-rules.ts';
import type { Converter } from '../sync/worker/converter.ts';
import { parseInWorker } from '../sync/worker/converter.ts';
import type { WritableConnection } from '../sync/write-back/write-back.ts';
import type { Parts } from './parts.ts';

/** What the names in each connection's configuration lead to, by the name of the connection. */
export type NameBooks = ReadonlyMap<string, NameBindings>;

export async function openNameBooks(
  configs: readonly ConnectionConfig[],
  { clock, connectors }: Pick<Parts, 'clock' | 'connectors'>,
  deps: { readonly store: Store; readonly logger: Logger; readonly meter: Meter },
): Promise<NameBooks> {
  const books = new Map<string, NameBindings>();
  for (const { name, connector: id, options } of configs) {
    const { namesIn, unitOf } = connectorOf(id, connectors);
    const entries = namesIn?.(options) ?? [];
    if (entries.length > 0)
      books.set(name, await openNameBindings({ ...deps, clock }, { connection: name, entries, unitOf }));
  }
  return books;
}

/** The options as connectors get them: with what is known of the names in them. */
function namedOptions({ name, options }: ConnectionConfig, books: NameBooks): unknown {
  return withNames(options, books.get(name));
}

function withNames(options: unknown, names: NameBindings | undefined): unknown {
  return names === undefined ? options : { ...(options as object), names };
}

interface ConnectionNeeds {
  readonly logger: Logger;
  readonly books: NameBooks;
  readonly grants: Grants;
  readonly converter: Converter;
  readonly pauses: Pauses;
  readonly lease: Lease;
}

/** The configured connections, ready for intake. */
export function activeConnections(
  configs: readonly ConnectionConfig[],
  { http, clock, connectors }: Pick<Parts, 'http' | 'clock' | 'connectors'>,
  { logger, books, grants, converter, pauses, lease }: ConnectionNeeds,
  webhookUrl: (connection: string) => string | undefined,
): ActiveConnection[] {
  return configs.map((config) => {
    const { name, connector: id, webhookSecrets: secrets, poll, sweep } = config;
    const connector = connectorOf(id, connectors);
    const options = namedOptions(config, books);
    const names = books.get(name);
    const grant = connector.oauth?.(options);
    const client = withRateLimitGuard(parseInWorker(fencedHttpClient(http, lease), converter), name, pauses);
    const connected = connector.connect(options, {
      ...{ http: client, clock, logger: logger.child({ connection: name }) },
      ...(grant && { accessTokens: grants.tokensOf(grant, id) }),
    });
    const own = recordRateLimits(connected, name, pauses);
    const connection = names === undefined ? own : addressById(own, names);
    const url = secrets.length > 0 ? webhookUrl(name) : undefined;
    const { translate: translateInWorker } = asideOf(config, names, converter);
    const intake = { secrets, schedule: poll, sweep, webhookUrl: url, translateInWorker };
    return { name, connector, options, connection, names, ...intake };
  });
}

/** The same connections as reconcile sees them: pure functions only. */
export function sourcesOf(
  configs: readonly ConnectionConfig[],
  connectors: Parts['connectors'],
  books: NameBooks,
  converter: Converter,
): Sources {
  return new Map(configs.map((config) => [config.name, sourceOf(config, connectors, books, converter)]));
}

function sourceOf(
  config: ConnectionConfig,
  connectors: Parts['connectors'],
  books: NameBooks,
  converter: Converter,
): Source {
  const { name, connector: id, mirror, writeBack } = config;
  const options = namedOptions(config, books);
  const connector = connectorOf(id, connectors);
  const quiet = quietly(books.get(name));
  return {
    connection: name,
    vendor: connector,
    grammar: connector.grammar,
    writeBack: { ...writeBack, close: writeBack.close !== false },
    records: mirror !== 'off',
    fetchesCommits: connector.fetchesCommits?.(options) ?? false,
    translate: (delivery) => connector.translate(delivery, options),
    reference: (item) => connector.reference(item),
    aside: asideOf(config, books.get(name), converter),
    quiet: {
      translate: (delivery) => connector.translate(delivery, withNames(config.options, quiet)),
      aside: asideOf(config, quiet, converter),
    },
  };
}

/** Looking at an old delivery is no news of what names lead to. */
function quietly(book: NameBindings | undefined): NameBindings | undefined {
  return book && { ...book, report: () => undefined };
}

/** The thread has a copy of the names; what it saw of them is reported here. */
function asideOf(
  { connector, options }: ConnectionConfig,
  book: NameBindings | undefined,
  converter: Converter,
): WorkerTranslator {
  return {
    async translate({ source, event, stored }) {
      const names = book?.bindings().map(({ entry, id }) => [entry, id] as const);
      const task = { connector, options, names, source, event, body: stored };
      const { translation, told } = await converter.translate(task);
      for (const seen of told) book?.report(seen);
      return translation;
    },
    parts: (body) => converter.parts({ body }),
  };
}

function connectorOf(id: string, connectors: Parts['connectors']): Connector<unknown> {
  const found = connectors.find((connector) => connector.id === id);
  if (!found) throw new SyncError('config_invalid', `there is no connector "${id}"`);
  return found;
}

/** The rules of a workspace over all its connections. `baseUrl` is where its API is. */
export function rulesOf(
  { rules, triage: { send }, users, connections, workspace }: WorkspaceConfig,
  baseUrl: string,
  connectors: Parts['connectors'],
): Rules {
  const { trailers, links, triage, documents } = rules;
  const grammars = connections.map(({ connector: id, options }) => {
    const connector = connectorOf(id, connectors);
    return { connector: id, host: connector.host(options), grammar: connector.grammar };
  });
  // An embedded service is at another address each time: only what is configured makes other rules.
  const own = connections.map(({ writeBack, mirror }) => [writeBack, mirror === 'off']);
  const named = [rules, send, users, workspace.url, workspace.web, grammars, own];
  return createRules({
    trailers,
    links,
    triage,
    send,
    users,
    documents: documents === 'attach',
    addresses: [new URL(baseUrl).origin, ...workspace.web],
    grammars,
    digest: createHash('sha256').update(JSON.stringify(named)).digest('hex'),
  });
}

/** The connections to which something is written, as they are configured. */
export function writableOf(
  configs: readonly ConnectionConfig[],
  active: readonly ActiveConnection[],
): WritableConnection[] {
  const writing = new Map(configs.map(({ name, writeBack }) => [name, writeBack]));
  return active.flatMap(({ name, connection, connector }) => {
    const { comment = false, close = false, status = false } = writing.get(name) ?? {};
    if (comment === false && close === false && status === false) return [];
    const closeFields = typeof close === 'object' ? close.fields : undefined;
    return [{ name, connection, closeFields, reference: (item: Item) => connector.reference(item) }];
  });
}
