import { createHmac, hash, hkdfSync } from 'node:crypto';
import type { Random } from '../platform/lib/random.ts';
import { isSameSecret } from '../platform/lib/same-secret.ts';
import type { Identity } from './admitted-caller.ts';

/** What a process asks of another one of the same installation. */
export interface SignedRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** What a signature says, where it is right. */
export interface Signed {
  readonly identity: Identity;
  /** SHA-256 of the body that belongs to it. */
  readonly body: string;
}

/** By which the processes of an installation know each other. */
export interface Signatures {
  /** The value of the header. @param to id of the process that the request goes to */
  sign(request: SignedRequest, body: Buffer | undefined, to: string, identity: Identity): string;
  /** Undefined where the request carries no signature; `wrong` for one that is not for this process, or not for this request. */
  open(request: SignedRequest, own: string | undefined): Signed | 'wrong' | undefined;
}

export interface SignaturesDeps {
  /** The secret that all processes of the installation have. */
  readonly secretKey: Buffer;
  /** Name of the installation: another one may have the same secret. */
  readonly installation: string;
  /** Epoch milliseconds, by the clock that all of them share. */
  readonly now: () => number;
  readonly random: Random;
}

export const SIGNATURE_HEADER = 'x-worksync-replica';

/** Older ones, and those of a time to come, are refused, milliseconds. */
const LONGEST = 60_000;
/** Headers that decide what a request does. */
const COVERED = ['authorization', 'content-type', 'x-worksync-user'];
const NONCE_BYTES = 16;
/** Longer than what a signature says of one workspace. */
const LONGEST_TEXT = 8_192;

interface Statement extends Signed {
  readonly to: string;
  readonly at: number;
  readonly nonce: string;
}

export function createSignatures({ secretKey, installation, now, random }: SignaturesDeps): Signatures {
  const key = Buffer.from(hkdfSync('sha256', secretKey, installation, 'worksync requests between replicas', 32));
  const seen = createSeen(now);

  function macOf(statement: string, { method, url, headers }: SignedRequest): Buffer {
    const covered = COVERED.map((name) => headers[name] ?? null);
    return createHmac('sha256', key)
      .update(JSON.stringify([statement, method, url, covered]))
      .digest();
  }

  return {
    sign(request, body, to, identity) {
      const nonce = random.bytes(NONCE_BYTES).toString('base64url');
      const said: Statement = { to, at: now(), nonce, identity, body: digestOf(body) };
      const statement = Buffer.from(JSON.stringify(said)).toString('base64url');
      return `${statement}.${macOf(statement, request).toString('base64url')}`;
    },
    open(request, own) {
      const given = request.headers[SIGNATURE_HEADER];
      if (given === undefined) return undefined;
      if (typeof given !== 'string' || given.length > LONGEST_TEXT) return 'wrong';
      const [statement = '', mac = '', ...more] = given.split('.');
      // As texts: other texts become the same bytes.
      const wanted = macOf(statement, request).toString('base64url');
      if (more.length > 0 || !isSameSecret(mac, wanted)) return 'wrong';
      const { to, at, nonce, identity, body } = JSON.parse(Buffer.from(statement, 'base64url').toString()) as Statement;
      if (to !== own || Math.abs(now() - at) > LONGEST || !seen.isNew(nonce)) return 'wrong';
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

/** Each is right once. Only signatures that were right are remembered, for as long as they are. */
function createSeen(now: () => number) {
  const until = new Map<string, number>();
  return {
    isNew(nonce: string): boolean {
      for (const [old, end] of until) {
        if (end > now()) break;
        until.delete(old);
      }
      if (until.has(nonce)) return false;
      until.set(nonce, now() + 2 * LONGEST);
      return true;
    },
  };
}
