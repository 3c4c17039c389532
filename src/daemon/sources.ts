import { createHash } from 'node:crypto';
import type { TriedConfig } from '../admin/open-workspace.ts';
import type { Connector } from '../connectors/connector.ts';
import { SyncError } from '../model/errors.ts';
import type { Item } from '../model/item.ts';
import { LARGE_CONFIG, readConfigText } from '../platform/config/load.ts';
import type { ConnectionConfig, WorkspaceConfig } from '../platform/config/schema.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { StoreContext } from '../store/store-context.ts';
import { addressById, type NameBindings, openNameBindings } from '../sync/intake/name-bindings.ts';
import { type Pauses, recordRateLimits, withRateLimitGuard } from '../sync/intake/pauses.ts';
import { webhookUrlOf } from '../sync/intake/webhook-routes.ts';
import {
  createRules,
  type ReconcileConnection,
  type ReconcileConnections,
  type Rules,
  type WorkerTranslator,
} from '../sync/reconcile/context.ts';
import { needsReviews } from '../sync/reconcile/workflow/workflow-rules.ts';
import { type Converter, parseInWorker } from '../sync/worker/converter.ts';
import { type ActiveConnection, isRecorded, type WorkspaceContext } from '../sync/workspace-context.ts';
import { apiOverrides } from '../workspace-api/contract.ts';
import type { DaemonContext, ProcessContext } from './daemon-context.ts';

type Connectors = ProcessContext['connectors'];

/** The bindings of the names in the configured scopes, by connection. */
export type NamesByConnection = ReadonlyMap<string, NameBindings>;

export async function openNamesByConnection(
  context: StoreContext,
  { connections }: WorkspaceConfig,
  connectors: Connectors,
): Promise<NamesByConnection> {
  const namesByConnection = new Map<string, NameBindings>();
  for (const { name, connector: id, options } of connections) {
    const { namesIn, unitOf } = connectorOf(id, connectors);
    const entries = namesIn?.(options) ?? [];
    if (entries.length > 0)
      namesByConnection.set(name, await openNameBindings(context, { connection: name, entries, unitOf }));
  }
  return namesByConnection;
}

/** Creates the configured connections for intake. @param http sends nothing after the lease was lost */
export function activeConnections(
  daemon: DaemonContext,
  { clock, logger }: StoreContext,
  { name: workspace, connections, rules: { workflow } }: WorkspaceConfig,
  http: HttpClient,
  namesByConnection: NamesByConnection,
  pauses: Pauses,
): ActiveConnection[] {
  const { converter, grants } = daemon;
  const { publicUrl } = daemon.options;
  const isReviewNeeded = workflow !== undefined && needsReviews(workflow);
  return connections.map((config) => {
    const { name, connector: id, webhookSecrets: secrets, poll, sweep } = config;
    const connector = connectorOf(id, daemon.connectors);
    const names = namesByConnection.get(name);
    const options = withNames(config.options, names);
    const grant = connector.oauth?.(options);
    const connected = connector.connect(options, {
      // Sends nothing during a rate limit of the vendor, and parses large answers in a worker.
      http: withRateLimitGuard(parseInWorker(http, converter), name, pauses),
      clock,
      logger: logger.child({ connection: name }),
      ...(grant && { accessTokens: grants.tokensOf(grant, id) }),
    });
    const limited = recordRateLimits(connected, name, pauses);
    const takesWebhooks = publicUrl !== undefined && secrets.length > 0;
    return {
      name,
      connector,
      options,
      connection: names === undefined ? limited : addressById(limited, names),
      names,
      secrets,
      readsReviews: secrets.length === 0 && isReviewNeeded && connector.fetchesReviews?.(options) === true,
      writeBack: config.writeBack,
      covers: (item) => isCovered(item, { connector, options, names }),
      schedule: poll,
      sweep,
      webhookUrl: takesWebhooks ? webhookUrlOf(publicUrl, workspace, name) : undefined,
      translateInWorker: workerTranslator(config, names, converter).translate,
    };
  });
}

/** Adds the known bindings of names to the options, as connectors expect them. */
function withNames(options: unknown, names: NameBindings | undefined): unknown {
  return names === undefined ? options : { ...(options as object), names };
}

/** Creates the view of the configured connections that reconcile uses: pure functions only. */
export function sourcesOf(
  configs: readonly ConnectionConfig[],
  connectors: Connectors,
  namesByConnection: NamesByConnection,
  converter: Converter,
): ReconcileConnections {
  return new Map(
    configs.map((config) => {
      const connector = connectorOf(config.connector, connectors);
      return [config.name, sourceOf(config, connector, namesByConnection.get(config.name), converter)];
    }),
  );
}

function sourceOf(
  config: ConnectionConfig,
  connector: Connector<unknown>,
  names: NameBindings | undefined,
  converter: Converter,
): ReconcileConnection {
  const options = withNames(config.options, names);
  const quiet = withoutReports(names);
  const quietOptions = withNames(config.options, quiet);
  return {
    name: config.name,
    connector,
    grammar: connector.grammar,
    writeBack: { ...config.writeBack, close: config.writeBack.close !== false },
    records: isRecorded(config),
    fetchesCommits: connector.fetchesCommits?.(options) ?? false,
    translate: (delivery) => connector.translate(delivery, options),
    reference: (item) => connector.reference(item),
    covers: (item) => isCovered(item, { connector, options, names }),
    worker: workerTranslator(config, names, converter),
    inspection: {
      translate: (delivery) => connector.translate(delivery, quietOptions),
      worker: workerTranslator(config, quiet, converter),
    },
  };
}

/** Returns a view that ignores reports about names, because an old delivery is no evidence of the present bindings. */
function withoutReports(names: NameBindings | undefined): NameBindings | undefined {
  return names && { ...names, report: () => undefined, reportScope: () => undefined };
}

/** Translates deliveries in the worker, which has a copy of the names. Its reports about names are applied here. */
function workerTranslator(
  { connector, options }: ConnectionConfig,
  bindings: NameBindings | undefined,
  converter: Converter,
): WorkerTranslator {
  return {
    async translate({ source, event, stored }) {
      const names = bindings?.bindings().map(({ entry, id }) => [entry, id] as const);
      const task = { connector, options, names, source, event, body: stored };
      const { translation, reported, scopes } = await converter.translate(task);
      for (const unit of reported) bindings?.report(unit);
      for (const [unit, isInScope] of scopes) bindings?.reportScope?.(unit, isInScope);
      return translation;
    },
    elements: (body) => converter.parts({ body }),
  };
}

function connectorOf(id: string, connectors: Connectors): Connector<unknown> {
  const found = connectors.find((connector) => connector.id === id);
  if (!found) throw new SyncError('config_invalid', `there is no connector "${id}"`);
  return found;
}

/** Creates the rules of a workspace over all its connections. @param baseUrl the address of its API */
export function rulesOf(
  { rules, triage: { send }, users, connections, workspace }: WorkspaceConfig,
  baseUrl: string,
  connectors: Connectors,
): Rules {
  const { trailers, links, triage, workflow, documents } = rules;
  const grammars = connections.map(({ connector: id, options }) => {
    const connector = connectorOf(id, connectors);
    return { connector: id, host: connector.host(options), grammar: connector.grammar };
  });
  // Without `baseUrl`: the address of an embedded service changes with each start, and that must not count as other rules.
  const settings = connections.map(({ name, writeBack, mirror }) => [name, writeBack, mirror === 'off']);
  const digested = [rules, send, users, workspace.url, workspace.web, workspace.statuses, grammars, settings];
  return createRules({
    trailers,
    links,
    triage,
    send,
    users,
    workflow: workflow && { ...workflow, statuses: workspace.statuses },
    statuses: workspace.statuses,
    connections: new Set(connections.map(({ name }) => name)),
    documents: documents === 'attach',
    addresses: [new URL(baseUrl).origin, ...workspace.web],
    grammars,
    digest: createHash('sha256').update(JSON.stringify(digested)).digest('hex'),
  });
}

/**
 * Compiles the text of a configuration file, so that items can be evaluated by it. The URL in use replaces the one of the text,
 * which need not name the workspace. Opens nothing and sends no request. Throws `config_invalid`.
 */
export async function compileConfig(
  text: string,
  { connectors, converter }: DaemonContext,
  { config: inUse, baseUrl }: WorkspaceContext,
  namesByConnection: NamesByConnection,
): Promise<TriedConfig> {
  const file = `${inUse.name}.yaml`;
  const config =
    text.length > LARGE_CONFIG
      ? await converter.configText({ text, file })
      : readConfigText(text, { connectors, apiOverrides }, file);
  return {
    config,
    rules: rulesOf({ ...config, workspace: { ...config.workspace, url: inUse.workspace.url } }, baseUrl, connectors),
    sources: sourcesOf(config.connections, connectors, namesByConnection, converter),
  };
}

/** Whether an item is in the scope of its connection, as far as the item and the configured names show it. */
function isCovered(
  item: Item,
  { connector, options, names }: Pick<ActiveConnection, 'connector' | 'options' | 'names'>,
): boolean {
  if (item.kind === 'work_item' && item.movedAway != null) return false;
  const [id, name] =
    item.kind === 'pull_request' ? [item.repoId, item.repoName] : [item.containerId, item.containerName];
  const isBound = names?.bindings().some((binding) => binding.id === id) === true;
  return isBound || name === undefined || connector.mayCover?.(name, options) !== false;
}
