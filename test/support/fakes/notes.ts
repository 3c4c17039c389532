import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { Connection, Connector, WebhookRequest } from '../../../src/connectors/connector.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { JsonError, parseJson } from '../../../src/platform/http/parse-json.ts';

export const SECRET = 'a secret of the tests';

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
