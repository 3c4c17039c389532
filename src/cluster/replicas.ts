// Design: src/decisions/replicas.md

import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import type { AnswerRoom } from '../platform/http/answer-room.ts';
import { requestStreamed, type StreamedAnswer } from '../platform/http/streamed-request.ts';
import type { Identity } from './admitted-caller.ts';
import type { LeaseHolder } from './holder.ts';
import type { SeenReplica } from './replica-facts.ts';
import { SIGNATURE_HEADER, type Signatures, type Signed, type SignedRequest } from './signature.ts';

/** A request that goes on to another process. */
export interface PassedOn {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  readonly identity: Identity;
  /** Whether it is for the pages and commands, which may have a port of their own. */
  readonly isAdmin: boolean;
  /** Milliseconds until the answer must begin. */
  readonly patience: number;
  readonly signal?: AbortSignal;
}

/** What all the others are asked for somebody. */
export type Question = Pick<PassedOn, 'method' | 'headers' | 'body' | 'identity' | 'patience'>;

/** The answer of one of the other processes. */
export interface Answered<Answer> {
  readonly replica: SeenReplica;
  /** Undefined: nothing in time, or nothing of use. */
  readonly answer: Answer | undefined;
  /** Why there is none, in words for people. */
  readonly failure?: string;
}

/** The other processes over the same database. */
export interface Replicas {
  /** The other one that owns a workspace; undefined where nobody does, or this one. */
  ownerOf(workspace: string): Promise<SeenReplica | undefined>;
  /** Throws as `requestStreamed` does. */
  pass(to: SeenReplica, request: PassedOn): Promise<StreamedAnswer>;
  /** Asks each of them once, for an answer in JSON: absent, in our own name, for what is known at once. Never rejects. */
  askAll<Answer>(path: string, question?: Question): Promise<readonly Answered<Answer>[]>;
  /** What the signature of a request says. */
  open(request: SignedRequest): Signed | 'wrong' | undefined;
}

/** How long an answer may take once it has begun, milliseconds: more than live updates of a page do. */
const LONGEST_ANSWER = 120_000;
/** How long the others have when all are asked, milliseconds. */
const SOON = 2_000;

/** Asked by this process itself. */
const OURSELVES: Question = {
  method: 'GET',
  headers: { accept: 'application/json' },
  identity: { role: 'read', workspaces: null, ip: '' },
  patience: SOON,
};

export function createReplicas(holder: LeaseHolder, signatures: Signatures): Replicas {
  async function pass(to: SeenReplica, request: PassedOn): Promise<StreamedAnswer> {
    const { method, url, body, headers, identity, isAdmin, patience, signal } = request;
    const signature = signatures.sign({ method, url, headers }, body, to.id, identity);
    const base = (isAdmin ? to.adminAddress : undefined) ?? to.address;
    return requestStreamed({
      ...{ method, body, signal, patience, longest: LONGEST_ANSWER },
      ...{ origin: new URL(base).origin, path: url },
      headers: { ...headers, [SIGNATURE_HEADER]: signature },
    });
  }

  async function ask<Answer>(replica: SeenReplica, url: string, question: Question): Promise<Answered<Answer>> {
    const signal = AbortSignal.timeout(question.patience);
    try {
      // The signal alone ends it, so that a late answer is known by it.
      const asked = { ...question, url, isAdmin: true, signal, patience: LONGEST_ANSWER };
      const { status, body } = await pass(replica, asked);
      const text = (await wholeOf(body)).toString();
      if (status !== 200) return { replica, answer: undefined, failure: `HTTP ${status} to ${pathOf(url)}` };
      return { replica, answer: JSON.parse(text) as Answer };
    } catch (error) {
      const within = `within ${question.patience / 1_000} s`;
      const failure = signal.aborted ? `no answer to ${pathOf(url)} ${within}` : asSyncError(error).message;
      return { replica, answer: undefined, failure };
    }
  }

  return {
    async ownerOf(workspace) {
      const owner = await holder.ownerOf(workspace);
      return owner === undefined || owner.isOwn || !isReachable(owner) ? undefined : owner;
    },
    pass,
    askAll: (path, question = OURSELVES) => {
      const others = holder.replicas().filter((each) => !each.isOwn && isReachable(each));
      return Promise.all(others.map((each) => ask<never>(each, path, question)));
    },
    open: (request) => signatures.open(request, holder.replicas().find(({ isOwn }) => isOwn)?.id),
  };
}

/** Without its query, which may name what its asker may see and others may not. */
function pathOf(url: string): string {
  return url.split('?', 1)[0] as string;
}

/** One that starts tells its address when it listens. */
function isReachable({ address }: SeenReplica): boolean {
  return address !== '';
}

export async function wholeOf(body: AsyncIterable<Buffer>, room?: AnswerRoom): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of body) {
    pieces.push(piece);
    await room?.take(piece.length);
  }
  return Buffer.concat(pieces);
}

/** Why the owner of a workspace could not be asked. A request that was not sent may come again. */
export function noAnswer(workspace: string, { address }: SeenReplica, error: SyncError): SyncError {
  if (error.code === 'unreachable')
    return new SyncError(
      'held_elsewhere',
      `another replica works on ${workspace} (${address}), and cannot be reached`,
      {
        cause: error,
      },
    );
  return new SyncError(error.code, `another replica works on ${workspace} (${address}): ${error.message}`, {
    cause: error,
  });
}
