import { createHmac } from 'node:crypto';
import { isSameSecret } from '../../platform/lib/digest.ts';

/** The right of an upload address: the bytes of one file, until a time in epoch milliseconds. */
export interface Grant {
  readonly fileId: string;
  readonly expiresAt: number;
}

/** Returns the query of an upload address (W51). The signature rejects others before any row is read. */
export function signGrant(key: Buffer, grant: Grant): string {
  return new URLSearchParams({ expires: String(grant.expiresAt), signature: signatureOf(key, grant) }).toString();
}

/** Returns the grant of an address that this service has signed; undefined for any other. It may have expired. */
export function readGrant(key: Buffer, fileId: string, query: unknown): Grant | undefined {
  const { expires, signature } = query as Readonly<Record<string, unknown>>;
  if (typeof expires !== 'string' || !/^\d{1,15}$/.test(expires) || typeof signature !== 'string') return undefined;
  const grant = { fileId, expiresAt: Number(expires) };
  return isSameSecret(signature, signatureOf(key, grant)) ? grant : undefined;
}

function signatureOf(key: Buffer, { fileId, expiresAt }: Grant): string {
  return createHmac('sha256', key).update(`${fileId}.${expiresAt}`).digest('base64url');
}
