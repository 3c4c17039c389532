import { Readable } from 'node:stream';
import { isAdminOperation, longestAnswer } from '../admin/admin-operations.ts';
import { type Identity, noAnswer, type PeerAnswer, type Replicas } from '../cluster/replicas.ts';
import type { Access } from '../model/caller.ts';
import { asSyncError, type SyncError } from '../model/errors.ts';
import { USER_HEADER, VERSION_HEADER } from '../platform/http/daemon-client.ts';
import type { ServerReply, ServerRequest } from '../platform/http/server.ts';
import { refusalPage } from './access/access-refusals.ts';
import type { Caller } from './access/callers.ts';
import { failureOf, REFUSED } from './admin-answers.ts';
import { sendPage } from './html-document.ts';

/** The other processes of the installation, which answer for their workspaces. */
export interface Elsewhere {
  readonly replicas: Replicas;
  readonly isHere: (workspace: string) => boolean;
  /** Whether the session or gateway token of a caller that another process admitted still exists. */
  readonly isStillKnown: (identity: Identity) => Promise<boolean>;
  /** Whether this server has the pages and the routes of commands. */
  readonly isAdmin: boolean;
}

const PASSED_ON = ['accept', 'content-type', USER_HEADER];

/** The headers of an answer that are not forwarded, because they concern one connection only. */
const KEPT_BACK = new Set(['connection', 'keep-alive', 'transfer-encoding', 'date', 'set-cookie']);

/** Milliseconds that the owner may take in addition to the caller's own wait. */
const PATIENCE = 30_000;

/**
 * Forwards a request about one workspace to the process that owns it, and returns its answer unchanged. Nothing is repeated.
 *
 * @returns false if it is to be answered here
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
      method: request.method,
      url: request.url,
      headers: headersOf(request),
      isAdmin,
      body: Buffer.isBuffer(request.body) ? request.body : undefined,
      identity: identityOf(caller, limitedTo(caller, workspace), request.ip),
      patience: longestOf(request),
      signal: goneOf(reply),
    });
    for (const [name, value] of Object.entries(answer.headers)) if (!KEPT_BACK.has(name)) reply.header(name, value);
    reply.header(VERSION_HEADER, owner.version);
    void reply.code(answer.status).send(Readable.from(answer.body));
  } catch (error) {
    sendFailure(request, reply, noAnswer(workspace, owner, asSyncError(error)));
  }
  return true;
}

/** The one workspace that a request is about. Every process accepts webhooks. */
function workspaceOf({ params, routeOptions }: ServerRequest, { workspaces }: Caller): string | undefined {
  if (routeOptions.config.access === 'gateway') return workspaces?.[0];
  return (params as { readonly workspace?: string }).workspace;
}

/**
 * Sends a request to all other processes, about their own workspaces. The caller names those that did not answer.
 *
 * @param patience milliseconds that each may take
 */
export function queryReplicas<Answer>(
  request: ServerRequest,
  caller: Caller,
  { replicas, patience }: { readonly replicas: Replicas; readonly patience: number },
): Promise<readonly PeerAnswer<Answer>[]> {
  const body = Buffer.isBuffer(request.body) ? request.body : undefined;
  const identity = identityOf(caller, caller.workspaces, request.ip);
  const headers = headersOf(request);
  return replicas.requestAll<Answer>(request.url, { method: request.method, headers, body, identity, patience });
}

/** @param of the workspaces that it is about; null: all */
function identityOf({ role, session, token, gatewayToken }: Caller, of: Access['workspaces'], ip: string): Identity {
  return {
    role,
    ip,
    gatewayToken,
    workspaces: of,
    session: session && { digest: session.digest, pageToken: session.pageToken },
    token: token && { digest: token.digest, ...(token.isOwn && { isOwn: true }) },
  };
}

/** The owner needs the caller's right to its own workspace only. */
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

/** Returns the time that the caller allows for the quota, and the operation for its vendors, milliseconds. */
function longestOf(request: ServerRequest): number {
  const { question = '' } = request.params as { readonly question?: string };
  return PATIENCE + patienceOf(request) + (isAdminOperation(question) ? longestAnswer(question) : 0);
}

function goneOf({ raw }: ServerReply): AbortSignal {
  const gone = new AbortController();
  raw.once('close', () => gone.abort());
  return gone.signal;
}

/** Answers commands with the error, and browsers with a page. */
function sendFailure(request: ServerRequest, reply: ServerReply, error: SyncError): void {
  if ((request.headers.accept ?? '').includes('text/html'))
    void sendPage(reply.code(503), refusalPage(`${error.message}. ${error.hint}`));
  else void reply.code(REFUSED).send(failureOf(error));
}

/** The longest wait of a caller for the quota, milliseconds: `?patience=`. */
export function patienceOf({ query }: ServerRequest): number {
  const { patience } = query as { readonly patience?: unknown };
  return typeof patience === 'string' && /^\d{1,9}$/.test(patience) ? Number(patience) : 0;
}
