import type { DaemonOptions } from '../config/daemon-options.ts';
import { gatewayRoutes } from '../gateway/gateway.ts';
import type { TokenBook } from '../gateway/token-book.ts';
import { createOrigins } from '../http/origin.ts';
import { createServer, listen, type Server } from '../http/server.ts';
import { webhookRoutes } from '../intake/webhook-routes.ts';
import type { Cancel } from '../lib/clock.ts';
import type { Scrubber } from '../observe/scrubber.ts';
import type { Status } from '../operator/status.ts';
import { readWholeStatus } from '../operator/whole-status.ts';
import type { DataFolder } from '../store/data-folder.ts';
import type { Installation } from '../store/installation.ts';
import { type GuardedRoute, guardDoors } from '../web/access-control.ts';
import { adminRoutes } from '../web/admin-routes.ts';
import { helpRoutes } from '../web/help.ts';
import { linkPath, loginRoutes } from '../web/login-routes.ts';
import { probeRoutes, webRoutes } from '../web/page-routes.ts';
import { createSessions } from '../web/sessions.ts';
import { createCallers, type Token } from '../web/token-callers.ts';
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
  readonly folder: DataFolder;
  readonly installation: Installation;
  readonly workspaces: Workspaces;
  readonly reload: Reload;
  readonly scrubber: Scrubber;
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

  const { version, installation } = input;
  const told = { version, startedAt, clock, installation, workspaces, health, configFault: () => reload.fault() };
  const status = (): Promise<Status> => readWholeStatus(told);
  const web = { health, metrics, status, scrub: (text: string) => scrubber.scrub(text) };
  const { trustedProxies, openMetrics, insecurePages, allowedHosts, publicUrl, host } = options;
  const callers = createCallers([...input.tokens, { secret: ownToken, role: 'admin', workspaces: null }], clock);
  const sessions = createSessions({ installation, clock, random, callers });
  const addressed = createOrigins({ allowedHosts, publicUrl, listens: host });
  const doors = { callers, sessions, addressed, openMetrics, insecurePages, logger };
  const server = createServer({ failureBody: errorOfApi, trustedProxies });
  const admin = options.adminPort === undefined ? server : createServer({ trustedProxies });
  const routes = [...new Set([server, admin])].map((each) => guardDoors(each, doors));
  webhookRoutes(server, {
    find: (workspace, connection) => workspaces.find(workspace)?.receiver(connection),
    isBroken: (workspace) => workspaces.broken().has(workspace),
    clock,
    largestDelivery: Math.max(...connectors.map(({ largestDelivery }) => largestDelivery)),
  });
  const gateway = gatewayRoutes(server, {
    passages: () => workspaces.partitions().map(({ passage }) => passage),
    passage: (name) => workspaces.find(name)?.passage,
    tokens: input.tokenBook,
    clock,
    random,
    meter: metrics.meter,
  });
  workspaces.onOpen((partition) => partition.onWrite(() => gateway.changed(partition.name)));
  webRoutes(admin, web);
  loginRoutes(admin, doors);
  helpRoutes(admin);
  adminRoutes(admin, { workspaces, installation, sessions, clock });
  if (admin !== server) probeRoutes(server, web);

  const address = await listen(server, { host: options.host, port: options.port });
  const adminAddress =
    admin === server ? address : await listen(admin, { host: options.host, port: options.adminPort ?? 0 });
  workspaces.start();
  reload.start();
  health.set('server', true);
  folder.announce({ address: adminAddress, token: ownToken });

  let stopped: Promise<void> | undefined;
  async function stop(): Promise<void> {
    health.set('server', false, 'stopping');
    await Promise.all([...new Set([server, admin])].map((each) => closeServer(each, clock)));
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
