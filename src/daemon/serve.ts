// Design: src/decisions/daemon.md

import { resolve } from 'node:path';
import { daemonConfiguration } from '../admin/installation/effective-config.ts';
import { readWholeStatus, type ServedDaemon, type Sharing } from '../admin/status/whole-status.ts';
import type { LeaseHolder } from '../cluster/lease-holder.ts';
import type { Identity } from '../cluster/replicas.ts';
import { createGatewayForwarding, type Place } from '../gateway/destination.ts';
import { gatewayRoutes } from '../gateway/gateway.ts';
import { describeBuild } from '../model/build.ts';
import { commandEnvironment } from '../platform/config/config-files.ts';
import { addressOfPages, environment } from '../platform/config/daemon-options.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { createOrigins } from '../platform/http/origin.ts';
import { createServer, listen, type Server } from '../platform/http/server.ts';
import type { Cancel, Clock } from '../platform/lib/clock.ts';
import { doAll } from '../platform/lib/concurrency.ts';
import { programVersion } from '../platform/lib/own-program.ts';
import { fileReads } from '../platform/lib/regular-files.ts';
import type { Installation } from '../store/installation/installation.ts';
import { type FindReceiver, webhookRoutes } from '../sync/intake/webhook-routes.ts';
import { versionHeaderOf } from '../sync/outbox/sender.ts';
import { guardRoutes, signedBy } from '../web/access/access-control.ts';
import { createCallers, createSessions, type Sessions } from '../web/access/callers.ts';
import { linkPath, loginRoutes } from '../web/access/login-routes.ts';
import { createRefusalLog } from '../web/access/refusal-log.ts';
import { adminRoutes, ciRoutes } from '../web/admin-routes.ts';
import type { Elsewhere } from '../web/forward-request.ts';
import { helpRoutes } from '../web/help.ts';
import { assetRoutes } from '../web/html-document.ts';
import { probeRoutes, replicaRoutes, webRoutes } from '../web/page-routes.ts';
import { workspaceRoutes } from '../web/pages/workspace-routes.ts';
import type { DaemonContext } from './daemon-context.ts';
import { workspaceIdOf } from './partition.ts';
import type { Reload, Workspaces } from './workspaces.ts';

/** The running daemon: all partitions behind one server, or behind two if the pages have a port of their own. */
export type Daemon = Awaited<ReturnType<typeof serve>>;

/** Registers the routes, opens the servers, starts the workspaces and announces the address to commands. */
export async function serve(
  daemon: DaemonContext,
  workspaces: Workspaces,
  reload: Reload,
  remoteReceiver: FindReceiver | undefined,
) {
  const { clock, health, random, options, folder, scrubber, demoSecret } = daemon;
  const startedAt = clock.now();
  // For the commands beside this process, valid while it lives. It is announced in a file, which must contain no configured token.
  const ownToken = random.bytes(32).toString('base64url');
  scrubber.add(ownToken);

  const access = createAccess(daemon, workspaces, ownToken);
  const { trustedProxies, publicUrl } = options;
  const server = createServer({ failureBody: malformedRequestBody, trustedProxies, publicUrl });
  const admin = options.adminPort === undefined ? server : createServer({ trustedProxies, publicUrl });
  const servers = [...new Set([server, admin])];
  const refusals = openRefusalLog(daemon, workspaces, server);
  const guarded = servers.map((each) =>
    guardRoutes(each, {
      ...access.accessOptions,
      elsewhere: access.forwarding?.forServer(each === admin && admin !== server),
    }),
  );
  const served = servedDaemon(daemon, workspaces, reload, startedAt);
  addPublicRoutes(server, daemon, workspaces, remoteReceiver, access.forwarding);
  addAdminRoutes(admin, served, access);
  if (admin !== server) probeRoutes(server, served);

  const open = daemon.listen ?? listen;
  const address = await open(server, { host: options.host, port: options.port });
  const adminAddress =
    admin === server ? address : await open(admin, { host: options.host, port: options.adminPort ?? 0 });
  const pagesAddress = addressOfPages(options, adminAddress);
  workspaces.start();
  reload.start();
  health.set('server', true);
  folder.announce({
    address: adminAddress,
    token: ownToken,
    build: describeBuild(programVersion()),
    ...(admin !== server && { webhooks: address }),
    ...(pagesAddress !== adminAddress && { pages: pagesAddress }),
    ...(demoSecret !== undefined && { demoSecret }),
    ...(options.config !== undefined && { config: resolve(options.config) }),
  });

  let stopped: Promise<void> | undefined;
  async function stop(): Promise<void> {
    health.set('server', false, 'stopping');
    await doAll([() => Promise.all(servers.map((each) => closeServer(each, clock))), () => refusals.stop()]);
  }
  return {
    /** The address for webhooks, for example `http://127.0.0.1:8080`. */
    address,
    /** The address on which the pages are served. */
    adminAddress,
    /** The address of the pages for browsers. */
    pagesAddress,
    /** Returns all routes of both servers. */
    routes: () => guarded.flat(),
    status: () => readWholeStatus(served),
    /** Returns a link that logs a browser in, once, within ten minutes. */
    async loginLink() {
      return `${pagesAddress}${linkPath(await access.accessOptions.sessions.makeLink({ role: 'admin', workspaces: null }))}`;
    },
    /** Reports not ready, then closes the servers after they answered the requests in flight. The partitions go on. */
    stop: () => (stopped ??= stop()),
  };
}

type ServerAccess = ReturnType<typeof createAccess>;

/** Creates the authentication of callers, and the forwarding of requests to other processes. */
function createAccess(daemon: DaemonContext, workspaces: Workspaces, ownToken: string) {
  const { installation, clock, random, logger, tokenBook, tokens = [], sharing } = daemon;
  const { openMetrics, insecurePages, allowedHosts, publicUrl, host } = daemon.options;
  const callers = createCallers([...tokens, { secret: ownToken, role: 'admin', workspaces: null, isOwn: true }], clock);
  const sessions = createSessions({ installation, clock, random }, callers);
  const addressed = createOrigins({ allowedHosts, publicUrl, listens: host });
  const gatewayToken = (secret: string) => tokenBook.find(secret);
  return {
    accessOptions: { callers, sessions, gatewayToken, addressed, openMetrics, insecurePages, logger },
    forwarding: sharing && createOwnerForwarding(daemon, sharing, workspaces, sessions),
  };
}

function openRefusalLog(
  { installation, clock, logger, scrubber }: DaemonContext,
  workspaces: Workspaces,
  server: Server,
): ReturnType<typeof createRefusalLog> {
  const refusals = createRefusalLog({ installation, clock, logger }, scrubber.scrub, (workspace, connection) => ({
    workspace: workspaces.find(workspace) !== undefined || workspaces.broken().has(workspace),
    connection: connection !== undefined && workspaces.find(workspace)?.receivers.has(connection) === true,
  }));
  refusals.watch(server);
  return refusals;
}

/** Returns the parts of the daemon that its status, its pages and its routes share. */
function servedDaemon(daemon: DaemonContext, workspaces: Workspaces, reload: Reload, startedAt: number): ServedDaemon {
  const { flags = {}, scrubber } = daemon;
  const scrub = (text: string) => scrubber.scrub(text);
  return {
    ...daemon,
    startedAt,
    workspaces,
    configFault: () => reload.fault(),
    daemonOptions: () =>
      fileReads.run((files) =>
        daemonConfiguration({ flags, env: commandEnvironment(flags, environment(), files), scrub }),
      ),
    scrub,
  };
}

/** Adds the routes for vendors and jobs: webhooks, gateway, CI. */
function addPublicRoutes(
  server: Server,
  { clock, random, metrics, connectors, tokenBook, holder }: DaemonContext,
  workspaces: Workspaces,
  remoteReceiver: FindReceiver | undefined,
  forwarding: OwnerForwarding | undefined,
): void {
  const findReceiver: FindReceiver = (workspace, connection) => {
    const partition = workspaces.find(workspace);
    return partition ? partition.receivers.get(connection) : remoteReceiver?.(workspace, connection);
  };
  // An unknown workspace may be configured at another process. Then the sender must repeat the request.
  const isBroken = (workspace: string) => workspaces.broken().has(workspace) || differsFromPeers(holder);
  const largest = Math.max(...connectors.map(({ largestDelivery }) => largestDelivery));
  webhookRoutes(server, clock, findReceiver, isBroken, largest);
  const gateway = gatewayRoutes(server, {
    upstreams: () => workspaces.partitions().map(({ upstream }) => upstream),
    upstream: (name) => workspaces.find(name)?.upstream,
    elsewhere: forwarding?.forGateway,
    tokens: tokenBook,
    clock,
    random,
    meter: metrics.meter,
  });
  workspaces.onOpen((partition) => partition.onWrite(() => gateway.changed(partition.name)));
  ciRoutes(server, { workspaces, clock });
}

/** Adds the routes for people and commands: pages, probes, metrics, log-in, the admin API. */
function addAdminRoutes(admin: Server, served: ServedDaemon, { accessOptions }: ServerAccess): void {
  webRoutes(admin, served);
  replicaRoutes(admin, served);
  assetRoutes(admin);
  workspaceRoutes(admin, served);
  loginRoutes(admin, accessOptions);
  helpRoutes(admin);
  adminRoutes(admin, served, accessOptions.sessions);
}

/** Whether another process has a different configuration of the workspaces. */
function differsFromPeers(holder: LeaseHolder): boolean {
  const [first, ...others] = holder.replicas();
  return others.some(({ config }) => config !== first?.config);
}

/** Answers malformed HTTP, which has no path, in the form of the workspace API, because its clients are the most frequent. */
function malformedRequestBody(code: number, message: string) {
  return { code, message, errorCode: 'bad_request' };
}

/** Time for requests in flight at a stop, and time between two sweeps for idle connections, milliseconds. */
const LONGEST_ANSWER = 1_500;
const SWEEP_EVERY = 50;

/**
 * Closes a server, and resolves when every connection is closed. It sweeps idle connections, because a connection that was busy
 * when the server began to close would otherwise stay open after its answer for as long as the sender likes.
 */
async function closeServer(server: Server, clock: Clock): Promise<void> {
  const closed = server.close();
  let cancel: Cancel = () => undefined;
  const sweep = (left: number): void => {
    if (left > 0) server.server.closeIdleConnections();
    else server.server.closeAllConnections();
    cancel = clock.after(SWEEP_EVERY, () => sweep(left - SWEEP_EVERY));
  };
  sweep(LONGEST_ANSWER);
  await Promise.resolve(closed).finally(() => cancel());
}

type OwnerForwarding = ReturnType<typeof createOwnerForwarding>;

/** Forwards requests to the processes that own their workspaces. */
function createOwnerForwarding(
  { installation, tokenBook }: DaemonContext,
  { replicas }: Sharing,
  workspaces: Workspaces,
  sessions: Sessions,
) {
  const isHere = (name: string) => workspaces.find(name) !== undefined;
  const placeOf = createPlaces(installation);
  const configOf = (name: string) => workspaces.configured().find((config) => config.name === name);

  /** Checks the session or token that another process has verified, because it may have been revoked since. */
  async function isStillKnown({ session, gatewayToken, workspaces: limited }: Identity): Promise<boolean> {
    if (session && !(await sessions.isOpen(session.digest))) return false;
    if (gatewayToken === undefined) return true;
    const workspace = (await tokenBook.withId(gatewayToken))?.workspace;
    return workspace !== undefined && limited?.includes(workspace) === true;
  }

  return {
    /** @param isAdmin whether the server has only the pages and the admin API */
    forServer: (isAdmin: boolean): Elsewhere => ({ replicas, isHere, isStillKnown, isAdmin }),
    forGateway: createGatewayForwarding({
      replicas,
      signedBy,
      places: () => workspaces.configured().flatMap((config) => (isHere(config.name) ? [] : [placeOf(config)])),
      longestWait: (name) => configOf(name)?.gateway.wait ?? 0,
      versionHeader: (name) => versionHeaderOf(configOf(name)?.workspace.api),
    }),
  };
}

/** Creates the lookup of workspaces that are not open here; each configuration has one cached entry. */
function createPlaces(installation: Installation): (config: WorkspaceConfig) => Place {
  const cached = new WeakMap<WorkspaceConfig, Place>();
  return (config) => {
    const existing = cached.get(config);
    if (existing) return existing;
    let opened: Promise<() => Promise<string | undefined>> | undefined;
    const open = async () => workspaceIdOf(config, await installation.store(config.name));
    const place: Place = {
      name: config.name,
      async workspaceId() {
        opened ??= open();
        return (await opened)();
      },
    };
    cached.set(config, place);
    return place;
  };
}
