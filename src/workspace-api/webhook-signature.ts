import { createHmac } from 'node:crypto';
import { SyncError } from '../model/errors/sync-error.ts';
import { isSameSecret } from '../platform/lib/digest.ts';
import { HEADER_PREFIX, webhookHeadersOf } from './contract/header-names.ts';

export type WebhookHeaders = Readonly<ReturnType<typeof webhookHeadersOf>>;

/** Headers of a delivery by the reference service. */
export const WEBHOOK_HEADERS = webhookHeadersOf(HEADER_PREFIX);

/** `sha256=<hex>`: HMAC of the body as it is sent. */
export function signWebhook(body: string | Buffer, secret: string): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/** The receiver's side of a subscription. A delivery must match each value that is given. */
export type WebhookCredentials =
  | { readonly secret: string; readonly key?: string }
  | { readonly secret?: string; readonly key: string };

/**
 * Checks that a request comes from the workspace: the signature over the raw bytes, the shared key, or both, in
 * constant time. Throws `signature_missing` and `signature_mismatch`.
 *
 * @param headers names in lower case, as Node gives them
 * @param names the server's header names
 */
export function verifyWorkspaceWebhook(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  rawBody: string | Buffer,
  { secret, key }: WebhookCredentials,
  names: WebhookHeaders = WEBHOOK_HEADERS,
): void {
  if (secret !== undefined) compare(headers, names.signature, signWebhook(rawBody, secret));
  if (key !== undefined) compare(headers, names.key, key);
}

function compare(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  name: string,
  expected: string,
): void {
  const given = headers[name];
  if (typeof given !== 'string') throw new SyncError('signature_missing', `the header ${name} is missing`);
  if (isSameSecret(given, expected)) return;
  throw new SyncError('signature_mismatch', `the header ${name} is not what the subscription's secret makes`);
}
