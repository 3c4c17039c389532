import { createHmac, timingSafeEqual } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { z } from 'zod';
import type { Connection, Connector, WebhookRequest } from '../../src/connectors/connector.ts';
import { SyncError } from '../../src/errors/sync-error.ts';
import { JsonError, parseJson } from '../../src/http/json.ts';
import type { ActiveConnection, PollSchedule } from '../../src/intake/active-connection.ts';
import type { OpenOptions } from '../../src/lib/sqlite.ts';
import { openStore, type Store } from '../../src/store/database.ts';

/** A store in a folder of its own; both are gone when the test is over. */
export async function openTestStore(options: Pick<OpenOptions, 'steps' | 'onStatement'> = {}): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-intake-'));
  const store = await openStore({ file: join(folder, 'test.db'), ...options });
  onTestFinished(async () => {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return store;
}

/** The rows of the inbox, oldest first, bodies as text. */
export async function inboxOf(store: Store) {
  const rows = await store.query.selectFrom('inbox').selectAll().orderBy('id').execute();
  return rows.map((row) => ({ ...row, body: row.body?.toString() ?? null }));
}

export const SECRET = 'a secret of the tests';

/** Signs as the tests' vendor does. */
export function signed(body: string | Buffer, id = 'delivery-1', secret = SECRET): Record<string, string> {
  return {
    'content-type': 'application/json',
    'x-notes-event': 'note',
    'x-notes-delivery': id,
    'x-notes-signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
  };
}

/** A vendor that exists only here: it signs with HMAC-SHA256 over the raw bytes and names its deliveries. */
export const notesConnector: Connector<unknown> = {
  id: 'notes',
  title: 'Notes',
  publicHost: 'notes.example',
  capabilities: { namesDeliveries: true, workItems: true },
  largestDelivery: 25 * 1024 * 1024,
  options: z.unknown(),
  host: () => 'notes.example',
  async verify(request, secrets) {
    const given = request.headers['x-notes-signature'];
    if (given === undefined) throw new SyncError('signature_missing', 'no signature');
    const matches = secrets.map((secret) => isSignature(String(given), request, secret));
    if (!matches.includes(true)) throw new SyncError('signature_mismatch', 'wrong signature');
    const id = request.headers['x-notes-delivery'];
    return { event: String(request.headers['x-notes-event']), ...(id ? { deliveryId: String(id) } : {}) };
  },
  translate({ body }) {
    try {
      parseJson(body);
    } catch (error) {
      if (error instanceof JsonError) throw new SyncError('delivery_malformed', error.message, { cause: error });
      throw error;
    }
    return { outcome: 'ignored', reason: 'notes are no items' };
  },
  reference: ({ kind, key }) => ({ kind, key, locator: {} }),
  connect: () => connectionWith({}),
};

function isSignature(given: string, { body }: WebhookRequest, secret: string): boolean {
  const wanted = Buffer.from(`sha256=${createHmac('sha256', secret).update(body).digest('hex')}`);
  const got = Buffer.from(given);
  return got.length === wanted.length && timingSafeEqual(got, wanted);
}

/** A connection that does what the test says, and fails where the test said nothing. */
export function connectionWith(methods: Partial<Connection>): Connection {
  const unexpected = async (): Promise<never> => {
    throw new SyncError('internal', 'the test does not expect this call');
  };
  return { units: unexpected, poll: unexpected, fetch: unexpected, check: unexpected, ...methods };
}

export interface ActiveParts {
  readonly name?: string;
  readonly connection?: Partial<Connection>;
  readonly secrets?: readonly string[];
  readonly schedule?: PollSchedule;
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
  };
}
