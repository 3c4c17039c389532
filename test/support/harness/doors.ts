import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { createOrigins, type OriginOptions } from '../../../src/platform/http/origin.ts';
import { createServer, type Server } from '../../../src/platform/http/server.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { type Logger, silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { INSTALLATION_FILE } from '../../../src/store/installation/installation.ts';
import { type AccessOptions, callerOf, guardRoutes } from '../../../src/web/access/access-control.ts';
import { createCallers, createSessions, type Token } from '../../../src/web/access/callers.ts';
import { loginRoutes } from '../../../src/web/access/login-routes.ts';
import { createTravellingClock, type TravellingClock } from '../fakes/travelling-clock.ts';
import { openTestInstallation } from './store.ts';

export const ADMIN = 'the-token-of-the-admin-nobody-can-guess';
export const READ = 'the-token-of-a-reader-nobody-can-guess';
export const ACME = 'the-token-of-acme-that-nobody-can-guess';
export const JOB = 'wsg_the-token-of-a-job-that-nobody-can-guess';
/** Short enough to be guessed. */
export const SHORT = 'short-read-token';

const TOKENS: readonly Token[] = [
  { secret: ADMIN, role: 'admin', workspaces: null },
  { secret: READ, role: 'read', workspaces: null },
  { secret: ACME, role: 'admin', workspaces: ['acme'] },
  { secret: SHORT, role: 'read', workspaces: null },
];

export const ORIGIN = 'http://localhost:8080';

export type Doors = Awaited<ReturnType<typeof openDoors>>;

export interface DoorsOptions extends OriginOptions, Pick<AccessOptions, 'openMetrics' | 'insecurePages'> {
  readonly trustedProxies?: readonly string[];
  readonly tokens?: readonly Token[];
  readonly logger?: Logger;
  readonly folder?: string;
  readonly clock?: TravellingClock;
}

/**
 * A guarded server with one route for each access, each of which says who was let in. Its data folder may be given to the next
 * doors, as after a restart.
 */
export async function openDoors(options: DoorsOptions = {}) {
  const { tokens = TOKENS, logger = silentLogger, openMetrics, insecurePages, trustedProxies } = options;
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'worksync-doors-'));
  const clock = options.clock ?? createTravellingClock();
  const random = systemRandom();
  const installation = await openTestInstallation({ file: join(folder, INSTALLATION_FILE) });
  const callers = createCallers(tokens, clock);
  const sessions = createSessions({ installation, clock, random }, callers);
  const addressed = createOrigins(options);
  const server = createServer({ trustedProxies });
  const gatewayToken = async (secret: string) => (secret === JOB ? { id: 'gwt_job', workspace: 'acme' } : undefined);
  const access = { callers, sessions, gatewayToken, addressed, openMetrics, insecurePages, logger };
  guardRoutes(server, access);
  loginRoutes(server, access);
  addRoutes(server);
  await server.ready();
  let isOpen = true;
  const close = async () => {
    if (!isOpen) return;
    isOpen = false;
    await server.close();
    await installation.close();
  };
  onTestFinished(async () => {
    await close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { server, sessions, installation, clock, folder, close };
}

function addRoutes(server: Server): void {
  const whoIsIn = async (...[request]: Parameters<typeof callerOf>) => {
    const { role, workspaces } = callerOf(request);
    return { in: role, workspaces };
  };
  const everybody = async () => ({ in: 'everybody' });
  server.get('/livez', { config: { access: 'public' } }, everybody);
  server.get('/api/v1/*', { config: { access: 'public' } }, everybody);
  server.post('/webhooks/:workspace/:connection', { config: { access: 'webhook' } }, everybody);
  server.get('/', { config: { access: 'read', filters: true } }, whoIsIn);
  server.get('/job', { config: { access: 'gateway' } }, whoIsIn);
  server.get('/whole', { config: { access: 'read' } }, whoIsIn);
  server.get('/metrics', { config: { access: 'metrics', filters: true } }, whoIsIn);
  server.get('/undeclared', whoIsIn);
  server.post('/admin/pause', whoIsIn);
  server.post('/admin/filtered', { config: { filters: true } }, whoIsIn);
  server.post('/admin/workspaces/:workspace/pause', whoIsIn);
  server.post('/button', { config: { form: true } }, whoIsIn);
  server.get('/fails', { config: { access: 'public' } }, async () => {
    throw new Error('password is hunter2');
  });
}
