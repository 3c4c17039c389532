import { createHmac } from 'node:crypto';
import { isSameSecret } from '../../platform/lib/same-secret.ts';

/** What an upload address grants: the bytes of one file, until a time in epoch milliseconds. */
export interface Grant {
  readonly fileId: string;
  readonly expiresAt: number;
}

/** Query of an upload address (W51). The signature keeps strangers out before any row is looked at. */
export function signGrant(key: Buffer, grant: Grant): string {
  return new URLSearchParams({ expires: String(grant.expiresAt), signature: signatureOf(key, grant) }).toString();
}

/** The grant of an address that this service has signed; undefined for any other. Its time may be over. */
export function readGrant(key: Buffer, fileId: string, query: unknown): Grant | undefined {
  const { expires, signature } = query as Readonly<Record<string, unknown>>;
  if (typeof expires !== 'string' || !/^\d{1,15}$/.test(expires) || typeof signature !== 'string') return undefined;
  const grant = { fileId, expiresAt: Number(expires) };
  return isSameSecret(signature, signatureOf(key, grant)) ? grant : undefined;
}

function signatureOf(key: Buffer, { fileId, expiresAt }: Grant): string {
  return createHmac('sha256', key).update(`${fileId}.${expiresAt}`).digest('base64url');
}
