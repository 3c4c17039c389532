// Design: src/decisions/replicas.md

import { asSyncError, SyncError } from '../model/errors.ts';
import type { AnswerRoom } from '../platform/http/admission.ts';
import { requestStreamed, type StreamedAnswer } from '../platform/http/daemon-client.ts';
import type { LeaseHolder } from './lease-holder.ts';
import type { Peer } from './peers.ts';
import { type Identity, SIGNATURE_HEADER, type Signatures, type SignedRequest } from './signature.ts';

/** A request that this process forwards to another one. */
export interface ForwardedRequest {
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
export type BroadcastRequest = Pick<ForwardedRequest, 'method' | 'headers' | 'body' | 'identity' | 'patience'>;

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
