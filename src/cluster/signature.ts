// Design: src/decisions/replicas.md

import { createHmac, hash, hkdfSync } from 'node:crypto';
import type { Access } from '../model/caller.ts';
import type { Clock, Random } from '../platform/lib/clock.ts';
import { isSameSecret } from '../platform/lib/digest.ts';

/** The caller of a request, as the process that received it has authenticated it. */
export interface Identity extends Access {
  /** The address of the caller's connection. */
  readonly ip: string;
  /** The session of a browser; see `web/access/sessions.ts`. */
  readonly session?: { readonly digest: string; readonly pageToken: string } | undefined;
  /** A configured token; see `web/access/token-callers.ts`. */
  readonly token?: { readonly digest: string; readonly isOwn?: true } | undefined;
  /** The id of a gateway token. */
  readonly gatewayToken?: string | undefined;
}

/** A request from one process of an installation to another. */
export interface SignedRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** The verified content of a signature. */
export interface Signed {
  readonly identity: Identity;
  /** SHA-256 of the signed body. */
  readonly body: string;
}

export type Signatures = ReturnType<typeof createSignatures>;

export const SIGNATURE_HEADER = 'x-worksync-replica';

/** Largest accepted difference between the time of a signature and now, milliseconds. */
const VALID_FOR = 60_000;
/** Headers that determine the effect of a request. */
const COVERED = ['authorization', 'content-type', 'x-worksync-user'];
const NONCE_BYTES = 16;
/** Longest header value, characters. A valid one is shorter. */
const LONGEST_TEXT = 8_192;

interface Statement extends Signed {
  readonly to: string;
  readonly at: number;
  readonly nonce: string;
}

/**
 * Signs and verifies requests between the processes of an installation.
 *
 * @param secretKey the secret that all its processes have
 * @param installation its id, because another one may have the same secret
 * @param clock the clock that all processes share
 */
export function createSignatures(secretKey: Buffer, installation: string, clock: Pick<Clock, 'now'>, random: Random) {
  const key = Buffer.from(hkdfSync('sha256', secretKey, installation, 'worksync requests between replicas', 32));
  const nonces = createNonceCache(clock);

  function macOf(statement: string, { method, url, headers }: SignedRequest): Buffer {
    const covered = COVERED.map((name) => headers[name] ?? null);
    return createHmac('sha256', key)
      .update(JSON.stringify([statement, method, url, covered]))
      .digest();
  }

  return {
    /** Returns the value of the header. @param to id of the receiving process */
    sign(request: SignedRequest, body: Buffer | undefined, to: string, identity: Identity) {
      const nonce = random.bytes(NONCE_BYTES).toString('base64url');
      const content: Statement = { to, at: clock.now(), nonce, identity, body: digestOf(body) };
      const statement = Buffer.from(JSON.stringify(content)).toString('base64url');
      return `${statement}.${macOf(statement, request).toString('base64url')}`;
    },
    /** Returns undefined for a request without a signature, and `wrong` if it was signed for another request or receiver. */
    verify(request: SignedRequest, own: string | undefined) {
      const given = request.headers[SIGNATURE_HEADER];
      if (given === undefined) return undefined;
      if (typeof given !== 'string' || given.length > LONGEST_TEXT) return 'wrong';
      const [statement = '', mac = '', ...more] = given.split('.');
      // Compared as texts, because several texts decode to the same bytes.
      const expected = macOf(statement, request).toString('base64url');
      if (more.length > 0 || !isSameSecret(mac, expected)) return 'wrong';
      const { to, at, nonce, identity, body } = JSON.parse(Buffer.from(statement, 'base64url').toString()) as Statement;
      if (to !== own || Math.abs(clock.now() - at) > VALID_FOR || !nonces.addIfNew(nonce)) return 'wrong';
      return { identity, body };
    },
  };
}

/** Whether the body is the one that was signed. */
export function isSignedBody({ body }: Signed, given: unknown): boolean {
  return body === digestOf(Buffer.isBuffer(given) ? given : undefined);
}

function digestOf(body: Buffer | undefined): string {
  return hash('sha256', body ?? '');
}

/** Creates a cache that accepts each nonce once. It holds only nonces of valid signatures, for as long as these are valid. */
function createNonceCache(clock: Pick<Clock, 'now'>) {
  const until = new Map<string, number>();
  return {
    addIfNew(nonce: string): boolean {
      for (const [old, end] of until) {
        if (end > clock.now()) break;
        until.delete(old);
      }
      if (until.has(nonce)) return false;
      until.set(nonce, clock.now() + 2 * VALID_FOR);
      return true;
    },
  };
}
