import { Webhooks } from '@octokit/webhooks';
import { SyncError } from '../../errors/sync-error.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { mismatch, readName, requireSecrets, requireText, single } from '../kit/hmac.ts';

const SIGNATURE = /^sha256=[0-9a-f]{64}$/;

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
    requireSecrets(secrets);
    const signature = readSignature(request);
    await checkSignature(verifiers(secrets), request.body, signature);
    return {
      event: readName(request, 'x-github-event'),
      deliveryId: readName(request, 'x-github-delivery'),
    };
  };
}

function readSignature(request: WebhookRequest): string {
  if (request.headers['x-hub-signature-256'] === undefined)
    throw new SyncError('signature_missing', 'the request has no X-Hub-Signature-256 header');
  const signature = single(request, 'x-hub-signature-256');
  if (signature === undefined || !SIGNATURE.test(signature)) throw mismatch('is not one SHA-256 digest');
  return signature;
}

async function checkSignature(verifiers: readonly Webhooks[], body: Buffer, signature: string): Promise<void> {
  // The package takes text. Bytes that are not UTF-8 would change on the way, and GitHub sends none.
  requireText(body);
  const text = body.toString('utf8');
  let valid = false;
  for (const verifier of verifiers) valid = (await verifier.verify(text, signature)) || valid;
  if (!valid) throw mismatch('was made with another secret, or the body was changed');
}
