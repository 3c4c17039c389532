import { Readable } from 'node:stream';
import { isAdminOperation, longestAnswer } from '../admin/admin-operations.ts';
import { noAnswer, type PeerAnswer, type Replicas } from '../cluster/replicas.ts';
import type { Identity } from '../cluster/signature.ts';
import type { Access } from '../model/caller.ts';
import { asSyncError, type SyncError } from '../model/errors/sync-error.ts';
import { USER_HEADER, VERSION_HEADER } from '../platform/http/ask-daemon.ts';
import type { ServerReply, ServerRequest } from '../platform/http/server.ts';
import { failureOf, REFUSED } from './admin-answers.ts';
import { patienceOf } from './admin-bodies.ts';
import type { Caller } from './door-caller.ts';
import { sendPage } from './html-document.ts';
import { refusalPage } from './login-page.ts';

/** What the other processes of the installation do for callers of this one. */
export interface Elsewhere {
  readonly replicas: Replicas;
  /** Whether the workspace is open in this process. */
  readonly isHere: (workspace: string) => boolean;
  /** Whether the session or gateway token of a caller is still there, whom another process has admitted. */
  readonly isStillKnown: (identity: Identity) => Promise<boolean>;
  /** Whether this server has the pages and what commands ask. */
  readonly isAdmin: boolean;
}

/** What a request to a page or of a command says beside its body. */
const PASSED_ON = ['accept', 'content-type', USER_HEADER];

/** Of an answer: what concerns one connection only stays. */
const KEPT_BACK = new Set(['connection', 'keep-alive', 'transfer-encoding', 'date', 'set-cookie']);

/** How long the owner may take beside what the caller grants, milliseconds. */
const PATIENCE = 30_000;

/**
 * Passes a request about one workspace on to the process that owns it, and its answer back as it is. Nothing is repeated.
 *
 * @returns false where it is to be answered here
 */
export async function forwardRequest(
  request: ServerRequest,
  reply: ServerReply,
  caller: Caller,
  { replicas, isHere, isAdmin }: Elsewhere,
): Promise<boolean> {
  const workspace = workspaceOf(request, caller);
  if (workspace === undefined || isHere(workspace)) return false;
  const owner = await replicas.ownerOf(workspace);
  if (!owner) return false;
  try {
    const answer = await replicas.forward(owner, {
      ...{ method: request.method, url: request.url, headers: headersOf(request), isAdmin },
      ...{ body: Buffer.isBuffer(request.body) ? request.body : undefined },
      ...{
        identity: identityOf(caller, limitedTo(caller, workspace), request.ip),
        patience: longestOf(request),
        signal: goneOf(reply),
      },
    });
    for (const [name, value] of Object.entries(answer.headers)) if (!KEPT_BACK.has(name)) reply.header(name, value);
    reply.header(VERSION_HEADER, owner.version);
    void reply.code(answer.status).send(Readable.from(answer.body));
  } catch (error) {
    sendFailure(request, reply, noAnswer(workspace, owner, asSyncError(error)));
  }
  return true;
}

/** The one workspace that a request is about. Webhooks are taken by every process. */
function workspaceOf({ params, routeOptions }: ServerRequest, { workspaces }: Caller): string | undefined {
  if (routeOptions.config.door === 'gateway') return workspaces?.[0];
  return (params as { readonly workspace?: string }).workspace;
}

/**
 * Asks all the other processes the same, about what they work on. Who gathers their answers names those that gave none.
 *
 * @param patience how long each may take, milliseconds
 */
export function queryReplicas<Answer>(
  request: ServerRequest,
  caller: Caller,
  { replicas, patience }: { readonly replicas: Replicas; readonly patience: number },
): Promise<readonly PeerAnswer<Answer>[]> {
  const body = Buffer.isBuffer(request.body) ? request.body : undefined;
  const identity = identityOf(caller, caller.workspaces, request.ip);
  return replicas.requestAll<Answer>(request.url, {
    ...{ method: request.method, headers: headersOf(request), body, identity, patience },
  });
}

/** @param of the workspaces that it is about; null: all */
function identityOf({ role, session, token, gatewayToken }: Caller, of: Access['workspaces'], ip: string): Identity {
  return {
    ...{ role, ip, gatewayToken, workspaces: of },
    session: session && { digest: session.digest, pageToken: session.pageToken },
    token: token && { digest: token.digest, ...(token.isOwn && { isOwn: true }) },
  };
}

/** Of the workspaces that a caller is limited to, the owner needs to know of its own only. */
function limitedTo({ workspaces }: Caller, workspace: string): Access['workspaces'] {
  return workspaces === null ? null : workspaces.filter((name) => name === workspace);
}

function headersOf({ headers }: ServerRequest): Record<string, string> {
  const given = PASSED_ON.flatMap((name) => {
    const value = headers[name];
    return typeof value === 'string' ? [[name, value] as const] : [];
  });
  return Object.fromEntries(given);
}

/** What the caller grants for the quota, or a question needs for its vendors. */
function longestOf(request: ServerRequest): number {
  const { question = '' } = request.params as { readonly question?: string };
  return PATIENCE + patienceOf(request) + (isAdminOperation(question) ? longestAnswer(question) : 0);
}

function goneOf({ raw }: ServerReply): AbortSignal {
  const gone = new AbortController();
  raw.once('close', () => gone.abort());
  return gone.signal;
}

/** Commands show the error as their own; a page says the same. */
function sendFailure(request: ServerRequest, reply: ServerReply, error: SyncError): void {
  if ((request.headers.accept ?? '').includes('text/html'))
    void sendPage(reply.code(503), refusalPage(`${error.message}. ${error.hint}`));
  else void reply.code(REFUSED).send(failureOf(error));
}
