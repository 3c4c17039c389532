import { isUtf8 } from 'node:buffer';
import { Webhooks } from '@octokit/webhooks';
import { SyncError } from '../../errors/sync-error.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';

const SIGNATURE = /^sha256=[0-9a-f]{64}$/;
const NAME = /^[A-Za-z0-9_-]{1,100}$/;

type Verify = (request: WebhookRequest, secrets: readonly string[]) => Promise<VerifiedRequest>;

/**
 * Checks `X-Hub-Signature-256` over the raw bytes (GitHub, "Validating webhook deliveries"). The older SHA-1 header is
 * never looked at. Every live secret is tried, whether or not one has matched, and each comparison takes constant time.
 *
 * Throws `signature_missing` (also when no secret is configured), `signature_mismatch`, and, for a good signature
 * without a usable event name or delivery id, `delivery_malformed`.
 */
export function createVerify(): Verify {
  const known = new WeakMap<readonly string[], readonly Webhooks[]>();
  const verifiers = (secrets: readonly string[]) => {
    const found = known.get(secrets);
    if (found) return found;
    const made = secrets.map((secret) => new Webhooks({ secret }));
    known.set(secrets, made);
    return made;
  };
  return async (request, secrets) => {
    if (secrets.length === 0 || secrets.includes(''))
      throw new SyncError('signature_missing', 'no webhook secret is configured, so nothing can be proved');
    const signature = readSignature(request);
    await checkSignature(verifiers(secrets), request.body, signature);
    return {
      event: readName(request, 'x-github-event'),
      deliveryId: readName(request, 'x-github-delivery'),
    };
  };
}

function readSignature({ headers }: WebhookRequest): string {
  const signature = headers['x-hub-signature-256'];
  if (signature === undefined)
    throw new SyncError('signature_missing', 'the request has no X-Hub-Signature-256 header');
  if (typeof signature !== 'string' || !SIGNATURE.test(signature)) throw mismatch('is not one SHA-256 digest');
  return signature;
}

async function checkSignature(verifiers: readonly Webhooks[], body: Buffer, signature: string): Promise<void> {
  // The package takes text. Bytes that are not UTF-8 would change on the way, and GitHub sends none.
  if (body.length === 0 || !isUtf8(body)) throw mismatch('stands over a body that is not UTF-8 text');
  const text = body.toString('utf8');
  let valid = false;
  for (const verifier of verifiers) valid = (await verifier.verify(text, signature)) || valid;
  if (!valid) throw mismatch('was made with another secret, or the body was changed');
}

function mismatch(what: string): SyncError {
  return new SyncError('signature_mismatch', `the signature ${what}`);
}

function readName({ headers }: WebhookRequest, name: string): string {
  const value = headers[name];
  if (typeof value === 'string' && NAME.test(value)) return value;
  throw new SyncError('delivery_malformed', `the request has no usable ${name} header`);
}
