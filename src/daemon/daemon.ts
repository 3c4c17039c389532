// Design: src/decisions/daemon.md

import { daemonConfiguration } from '../admin/effective-config.ts';
import { readShared, type Sharing } from '../admin/replica-status.ts';
import type { Status } from '../admin/status.ts';
import { readOwnStatus, readProcessStatus, readWholeStatus, readWorkspaceList } from '../admin/whole-status.ts';
import type { LeaseHolder } from '../cluster/holder.ts';
import { gatewayRoutes } from '../gateway/gateway.ts';
import type { TokenBook } from '../gateway/token-book.ts';
import { type DaemonOptions, environment, type Flags } from '../platform/config/daemon-options.ts';
import { createOrigins } from '../platform/http/origin.ts';
import { createServer, listen, type Server } from '../platform/http/server.ts';
import type { ServerClocks } from '../platform/http/server-clocks.ts';
import type { Cancel } from '../platform/lib/clock.ts';
import { doAll } from '../platform/lib/failures.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import type { DataFolder } from '../store/data-folder.ts';
import type { Installation } from '../store/installation.ts';
import { type Receiver, webhookRoutes } from '../sync/intake/webhook-routes.ts';
import { type GuardedRoute, guardDoors } from '../web/access-control.ts';
import { adminRoutes } from '../web/admin-routes.ts';
import { ciRoutes } from '../web/ci-routes.ts';
import { helpRoutes } from '../web/help.ts';
import { linkPath, loginRoutes } from '../web/login-routes.ts';
import { assetRoutes } from '../web/page-assets.ts';
import { probeRoutes, webRoutes } from '../web/page-routes.ts';
import { workspaceRoutes } from '../web/pages/workspace-routes.ts';
import { createRefusalLog } from '../web/refusal-log.ts';
import { replicaRoutes } from '../web/replica-routes.ts';
import { createSessions } from '../web/sessions.ts';
import { createCallers, type Token } from '../web/token-callers.ts';
import { forwardToOwner } from './forward-to-owner.ts';
import type { Parts } from './parts.ts';
import type { Reload } from './reload.ts';
import type { Workspaces } from './workspaces.ts';

/** The running whole: all partitions behind one server, or two where the admin doors have a port of their own. */
export interface Daemon {
  /** Where webhooks come in, for example `http://127.0.0.1:8080`. */
  readonly address: string;
  /** Where the pages are. */
  readonly adminAddress: string;
  /** All routes of both servers. */
  routes(): readonly GuardedRoute[];
  status(): Promise<Status>;
  /** An address that logs a browser in, once, within ten minutes. */
  loginLink(): Promise<string>;
  /** Readiness goes first, then the servers, when they have answered what they accepted. The partitions run on. */
  stop(): Promise<void>;
}

export interface DaemonInput {
  readonly version: string;
  readonly options: DaemonOptions;
  /** Where the options come from; absent: from the environment, or from nowhere. */
  readonly flags?: Flags | undefined;
  readonly folder: DataFolder;
  readonly installation: Installation;
  readonly serverClocks: ServerClocks;
  readonly workspaces: Workspaces;
  readonly reload: Reload;
  readonly scrubber: Scrubber;
  readonly holder: LeaseHolder;
  /** Takes the webhooks of a workspace that another process owns; absent: there is no other process. */
  readonly receiverElsewhere?: (workspace: string, connection: string) => Receiver | undefined;
  /** How this process shares the workspaces with others; absent: it is the only one. */
  readonly sharing?: Sharing | undefined;
  /** For pages, metrics and admin actions. */
  readonly tokens: readonly Token[];
  /** Those of the gateway. */
  readonly tokenBook: TokenBook;
}

export async function startDaemon(input: DaemonInput, parts: Parts): Promise<Daemon> {
  const { options, workspaces, reload, folder, scrubber } = input;
  const { clock, random, health, metrics, logger, connectors } = parts;
  const startedAt = clock.now();
  // For the commands beside this process, and for as long as it lives: a configured one is written to no file.
  const ownToken = random.bytes(32).toString('base64url');
  scrubber.add(ownToken);

  const { version, installation, sharing } = input;
  const configFault = () => reload.fault();
  const told = { version, startedAt, clock, installation, workspaces, health, configFault, sharing };
  const status = (): Promise<Status> => readWholeStatus(told);
  const ownStatus = () => readOwnStatus(told);
  const web = { health, metrics, status, ownStatus, scrub: (text: string) => scrubber.scrub(text) };
  const { trustedProxies, openMetrics, insecurePages, allowedHosts, publicUrl, host } = options;
  const callers = createCallers(
    [...input.tokens, { secret: ownToken, role: 'admin', workspaces: null, isOwn: true }],
    clock,
  );
  const sessions = createSessions({ installation, clock, random, callers });
  const addressed = createOrigins({ allowedHosts, publicUrl, listens: host });
  const gatewayToken = (secret: string) => input.tokenBook.find(secret);
  const doors = { callers, sessions, gatewayToken, addressed, openMetrics, insecurePages, logger };
  const others = sharing && forwardToOwner({ ...input, sharing, sessions });
  const server = createServer({ failureBody: errorOfApi, trustedProxies, publicUrl });
  const admin = options.adminPort === undefined ? server : createServer({ trustedProxies, publicUrl });
  const refusals = createRefusalLog({
    ...{ installation, clock, logger, scrub: web.scrub },
    known: (workspace, connection) => ({
      workspace: workspaces.find(workspace) !== undefined || workspaces.broken().has(workspace),
      connection: connection !== undefined && workspaces.find(workspace)?.receiver(connection) !== undefined,
    }),
  });
  refusals.watch(server);
  const routes = [...new Set([server, admin])].map((each) =>
    guardDoors(each, { ...doors, elsewhere: others?.forServer(each === admin && admin !== server) }),
  );
  webhookRoutes(server, {
    find(workspace, connection) {
      const partition = workspaces.find(workspace);
      return partition ? partition.receiver(connection) : input.receiverElsewhere?.(workspace, connection);
    },
    // One that only others know may be theirs: its sender repeats.
    isBroken: (workspace) => workspaces.broken().has(workspace) || differsFromOthers(input.holder),
    clock,
    largestDelivery: Math.max(...connectors.map(({ largestDelivery }) => largestDelivery)),
  });
  const gateway = gatewayRoutes(server, {
    passages: () => workspaces.partitions().map(({ passage }) => passage),
    passage: (name) => workspaces.find(name)?.passage,
    elsewhere: others?.forGateway,
    tokens: input.tokenBook,
    clock,
    random,
    meter: metrics.meter,
  });
  workspaces.onOpen((partition) => partition.onWrite(() => gateway.changed(partition.name)));
  ciRoutes(server, { workspaces, clock });
  webRoutes(admin, { ...web, renewedAgo: () => sharing?.holder.renewedAgo() });
  if (sharing) replicaRoutes(admin, { ...told, sharing, scrub: web.scrub });
  assetRoutes(admin);
  workspaceRoutes(admin, {
    ...{ workspaces, clock, scrub: web.scrub },
    process: () => readProcessStatus(told),
    daemonOptions: () => daemonConfiguration({ flags: input.flags ?? {}, env: environment(), scrub: web.scrub }),
    list: () => readWorkspaceList(told),
    ...(sharing && { shared: () => readShared(sharing, clock) }),
  });
  loginRoutes(admin, doors);
  helpRoutes(admin);
  const { serverClocks } = input;
  const { replicas } = sharing ?? {};
  adminRoutes(admin, { workspaces, installation, sessions, clock, version, serverClocks, replicas });
  if (admin !== server) probeRoutes(server, web);

  const open = parts.listen ?? listen;
  const address = await open(server, { host: options.host, port: options.port });
  const adminAddress =
    admin === server ? address : await open(admin, { host: options.host, port: options.adminPort ?? 0 });
  workspaces.start();
  reload.start();
  health.set('server', true);
  folder.announce({ address: adminAddress, token: ownToken, ...(admin !== server && { webhooks: address }) });

  let stopped: Promise<void> | undefined;
  async function stop(): Promise<void> {
    health.set('server', false, 'stopping');
    const servers = [...new Set([server, admin])];
    await doAll([() => Promise.all(servers.map((each) => closeServer(each, clock))), () => refusals.stop()]);
  }
  return {
    address,
    adminAddress,
    routes: () => routes.flat(),
    status,
    loginLink: async () => `${adminAddress}${linkPath(await sessions.makeLink({ role: 'admin', workspaces: null }))}`,
    stop: () => (stopped ??= stop()),
  };
}

/** Whether another process has other workspaces, or others of the same names. */
function differsFromOthers(holder: LeaseHolder): boolean {
  const [first, ...others] = holder.replicas();
  return others.some(({ config }) => config !== first?.config);
}

/**
 * A request that is not valid HTTP belongs to no address: told in the form of the workspace API, whose clients come most often.
 */
function errorOfApi(code: number, message: string) {
  return { code, message, errorCode: 'bad_request' };
}

/** How long requests that are being answered hold up the end, and how often answered ones are looked for, milliseconds. */
const LONGEST_ANSWER = 1_500;
const SWEEP = 50;

/**
 * Resolves when every connection is closed. A sender's connection that was busy when the server began to close would
 * otherwise stay open after its answer, for as long as the sender likes.
 */
async function closeServer(server: Server, clock: Parts['clock']): Promise<void> {
  const closed = server.close();
  let cancel: Cancel = () => undefined;
  const sweep = (left: number): void => {
    if (left > 0) server.server.closeIdleConnections();
    else server.server.closeAllConnections();
    cancel = clock.after(SWEEP, () => sweep(left - SWEEP));
  };
  sweep(LONGEST_ANSWER);
  await Promise.resolve(closed).finally(() => cancel());
}
