// Design: src/decisions/replicas.md

import { createHmac, hash, hkdfSync } from 'node:crypto';
import type { Access } from '../model/caller.ts';
import { asSyncError, SyncError } from '../model/errors.ts';
import type { AnswerRoom } from '../platform/http/admission.ts';
import { requestStreamed, type StreamedAnswer } from '../platform/http/daemon-client.ts';
import type { Clock, Random } from '../platform/lib/clock.ts';
import { isSameSecret } from '../platform/lib/digest.ts';
import type { LeaseHolder, Peer } from './lease-holder.ts';

/** A request that this process forwards to another one. */
interface ForwardedRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  readonly identity: Identity;
  /** Whether it is for the pages or the admin API, which may have a port of their own. */
  readonly isAdmin: boolean;
  /** Time within which the answer must begin, milliseconds. */
  readonly patience: number;
  readonly signal?: AbortSignal;
}

/** A request that goes to all other processes. */
type BroadcastRequest = Pick<ForwardedRequest, 'method' | 'headers' | 'body' | 'identity' | 'patience'>;

/** The answer of one other process. */
export interface PeerAnswer<Answer> {
  readonly replica: Peer;
  /** Undefined if it did not answer in time, or not with success. */
  readonly answer: Answer | undefined;
  /** The reason why there is no answer, for people. */
  readonly failure?: string;
}

/** The other processes over the same database. */
export type Replicas = ReturnType<typeof createReplicas>;

/** Time for the whole answer once it has begun, milliseconds: longer than live updates of a page. */
const LONGEST_ANSWER = 120_000;
/** Time for the other processes to answer a broadcast of this process, milliseconds. */
const BROADCAST_TIMEOUT = 2_000;

const OWN_REQUEST: BroadcastRequest = {
  method: 'GET',
  headers: { accept: 'application/json' },
  identity: { role: 'read', workspaces: null, ip: '' },
  patience: BROADCAST_TIMEOUT,
};

export function createReplicas(holder: LeaseHolder, signatures: Signatures) {
  async function forward(to: Peer, request: ForwardedRequest): Promise<StreamedAnswer> {
    const { method, url, body, headers, identity, isAdmin, patience, signal } = request;
    const signature = signatures.sign({ method, url, headers }, body, to.id, identity);
    const base = (isAdmin ? to.adminAddress : undefined) ?? to.address;
    return requestStreamed({
      method,
      body,
      signal,
      patience,
      longest: LONGEST_ANSWER,
      origin: new URL(base).origin,
      path: url,
      headers: { ...headers, [SIGNATURE_HEADER]: signature },
    });
  }

  async function requestOne<Answer>(
    replica: Peer,
    url: string,
    request: BroadcastRequest,
  ): Promise<PeerAnswer<Answer>> {
    const signal = AbortSignal.timeout(request.patience);
    try {
      // Only the signal ends it, so that `signal.aborted` identifies a late answer.
      const forwarded = { ...request, url, isAdmin: true, signal, patience: LONGEST_ANSWER };
      const { status, body } = await forward(replica, forwarded);
      const text = (await readBody(body)).toString();
      if (status !== 200) return { replica, answer: undefined, failure: `HTTP ${status} to ${pathOf(url)}` };
      return { replica, answer: JSON.parse(text) as Answer };
    } catch (error) {
      const within = `within ${request.patience / 1_000} s`;
      const failure = signal.aborted ? `no answer to ${pathOf(url)} ${within}` : asSyncError(error).message;
      return { replica, answer: undefined, failure };
    }
  }

  return {
    /** Returns another process that owns the workspace; undefined if it has no owner, or this process owns it. */
    async ownerOf(workspace: string) {
      const owner = await holder.ownerOf(workspace);
      return owner === undefined || owner.isOwn || !isReachable(owner) ? undefined : owner;
    },
    /** Throws what `requestStreamed` throws. */
    forward,
    /**
     * Sends a request for JSON once to each other process. Never rejects.
     *
     * @param request absent: a read in the name of this process, for facts that the others know at once
     */
    requestAll<Answer>(path: string, request = OWN_REQUEST) {
      const others = holder.replicas().filter((each) => !each.isOwn && isReachable(each));
      return Promise.all(others.map((each) => requestOne<Answer>(each, path, request)));
    },
    /** Verifies the signature of a received request. */
    verify: (request: SignedRequest) => signatures.verify(request, holder.replicas().find(({ isOwn }) => isOwn)?.id),
  };
}

/** Removes the query, which may name objects that readers of the failure may not see. */
function pathOf(url: string): string {
  return url.split('?', 1)[0] as string;
}

/** Whether the process has reported an address, which it does when it listens. */
function isReachable({ address }: Peer): boolean {
  return address !== '';
}

/** @param room the budget of the server from which the bytes are taken */
export async function readBody(body: AsyncIterable<Buffer>, room?: AnswerRoom): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) {
    chunks.push(chunk);
    await room?.take(chunk.length);
  }
  return Buffer.concat(chunks);
}

/** Returns the error for a request that the owner did not answer. If it was not sent, the sender may repeat it. */
export function noAnswer(workspace: string, { address }: Peer, error: SyncError): SyncError {
  const owner = `another replica works on ${workspace} (${address})`;
  if (error.code === 'unreachable')
    return new SyncError('held_elsewhere', `${owner}, and cannot be reached`, { cause: error });
  return new SyncError(error.code, `${owner}: ${error.message}`, { cause: error });
}

/** The caller of a request, as the process that received it has authenticated it. */
export interface Identity extends Access {
  /** The address of the caller's connection. */
  readonly ip: string;
  /** The session of a browser; see `web/access/callers.ts`. */
  readonly session?: { readonly digest: string; readonly pageToken: string } | undefined;
  /** A configured token; see `web/access/callers.ts`. */
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

type Signatures = ReturnType<typeof createSignatures>;

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
