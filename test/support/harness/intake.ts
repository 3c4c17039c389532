import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Connection, Connector } from '../../../src/connectors/connector.ts';
import type { OpenOptions } from '../../../src/platform/database/database-types.ts';
import { createServer, type ServerOptions } from '../../../src/platform/http/server.ts';
import { createWakeSignal } from '../../../src/platform/lib/clock.ts';
import type { Schedule } from '../../../src/platform/lib/scheduler.ts';
import { type LogFields, type Meter, silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import { mergingRepeats } from '../../../src/platform/observe/pino-logger.ts';
import { unpackBody } from '../../../src/store/deliveries/inbox.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import { createCollector, createGroupCommit } from '../../../src/sync/intake/append.ts';
import { type Receiver, webhookRoutes } from '../../../src/sync/intake/webhook-routes.ts';
import type { ActiveConnection } from '../../../src/sync/workspace-context.ts';
import { connectionWith, notesConnector, SECRET } from '../fakes/notes.ts';
import { createTravellingClock } from '../fakes/travelling-clock.ts';
import { folderOfTest } from './folder.ts';
import { type OpenedStore, openStore } from './store.ts';

export async function openTestStore(options: Pick<OpenOptions, 'steps' | 'onStatement'> = {}): Promise<OpenedStore> {
  const folder = folderOfTest('intake');
  const store = await openStore({ file: join(folder, 'test.db'), ...options });
  onTestFinished(async () => {
    await store.close();
  });
  return store;
}

export async function inboxOf(store: Store) {
  const rows = await store.query.selectFrom('inbox').selectAll().orderBy('id').execute();
  return rows.map(({ unpacked_length, body, ...row }) => ({
    ...row,
    body: body && unpackBody({ body, unpacked_length }).toString(),
  }));
}

export interface ActiveParts {
  readonly name?: string;
  readonly connection?: Partial<Connection>;
  readonly secrets?: readonly string[];
  readonly schedule?: Schedule;
  readonly sweep?: Schedule;
  readonly webhookUrl?: string;
  readonly connector?: Partial<Connector<unknown>>;
}

export function activeWith(parts: ActiveParts = {}): ActiveConnection {
  return {
    name: parts.name ?? 'notes',
    connector: { ...notesConnector, ...parts.connector },
    options: {},
    connection: connectionWith(parts.connection ?? {}),
    secrets: parts.secrets ?? [SECRET],
    schedule: parts.schedule ?? 'off',
    sweep: parts.sweep ?? 'off',
    webhookUrl: parts.webhookUrl,
  };
}

export type Endpoint = Awaited<ReturnType<typeof openEndpoint>>;

/** A real server on loopback with the webhook routes of workspace `main`. */
export async function openEndpoint(
  store: Store,
  connections: readonly ActiveConnection[],
  options: { readonly mostPending?: number } & Pick<ServerOptions, 'requestTimeout' | 'limits' | 'trustedProxies'> = {},
) {
  const clock = createTravellingClock();
  const counts = new Map<string, number>();
  const warnings: LogFields[] = [];
  const { checkFileReplaced } = store;
  const groupCommit = createGroupCommit({ query: store.query.whole, checkFileReplaced }, clock);
  const collector = createCollector({ store, clock }, groupCommit, createWakeSignal(), options.mostPending);
  const meter: Meter = {
    ...silentMeter,
    count(_name, labels) {
      const key = `${labels?.['connection']} ${labels?.['outcome']}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    },
  };
  const recorder = { ...silentLogger, warn: (fields: LogFields) => void warnings.push(fields) };
  const logger = mergingRepeats(recorder, clock);
  const receivers = new Map(
    connections.map((active): [string, Receiver] => [`main/${active.name}`, { ...active, collector, meter, logger }]),
  );
  const server = createServer(options);
  const find = (workspace: string, connection: string) => receivers.get(`${workspace}/${connection}`);
  const largest = Math.max(...connections.map(({ connector }) => connector.largestDelivery));
  webhookRoutes(server, clock, find, () => false, largest);
  const url = await server.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.close());
  return {
    url,
    port: Number(new URL(url).port),
    clock,
    counts,
    warnings,
    held: () => server.traffic.bodies.held(),
    /** Whether others go before what comes from this machine. */
    isSuspect: () => server.traffic.isSuspect('127.0.0.1'),
    async post(path: string, body: string | Buffer, headers: Record<string, string>) {
      const answer = await fetch(url + path, { method: 'POST', body, headers });
      return { status: answer.status, headers: answer.headers, body: await answer.text() };
    },
  };
}
