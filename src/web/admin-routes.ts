import type { ErrorCode } from '../errors/codes.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import type { Server, ServerReply, ServerRequest } from '../http/server.ts';
import type { Clock } from '../lib/clock.ts';
import { reaches } from '../model/access.ts';
import { checkAll } from '../operator/check.ts';
import { forget } from '../operator/data.ts';
import { pollOnce } from '../operator/once.ts';
import type { OpenWorkspace, OpenWorkspaces } from '../operator/open-workspace.ts';
import { answerQuestion, isQuestion } from '../operator/questions.ts';
import type { Installation } from '../store/installation.ts';
import type { ApiRequest, ApiResponse } from '../workspace/exchange.ts';
import { callerOf } from './access-control.ts';
import {
  apiRequest,
  bodyOf,
  forgottenWorkspace,
  gatewayTokenId,
  loginWish,
  newGatewayToken,
  nothing,
  QUESTION_BODIES,
} from './admin-bodies.ts';
import { linkPath } from './login-routes.ts';
import type { Sessions } from './sessions.ts';

/**
 * What commands beside a running daemon ask of it, so that they spend its quota and not their own. They show the token
 * that the daemon left for them; see `web/access-control.ts`.
 *
 * `POST /admin/check` answers a list of findings; `POST /admin/once?patience=<milliseconds>` one result for each
 * workspace, when it is done;
 * `POST /admin/workspaces/<name>/requests?patience=<milliseconds>` sends one request to the workspace in the interactive
 * lane and answers with its answer, the body in base64, or with a failure;
 * `POST /admin/workspaces/<name>/questions/<question>` answers one of `operator/questions.ts`, or 422 with a failure;
 * `GET` and `POST /admin/workspaces/<name>/gateway-tokens` list and create gateway tokens, `POST …/revoke` revokes one;
 * `POST /admin/login-links` answers `{"path"}`, which logs one browser in, with no more rights than the caller has;
 * `POST /admin/forget` deletes the rows of a workspace that is not open, and answers how many there were;
 * `POST /admin/sessions/end` logs all browsers out, and answers how many there were.
 */
export function adminRoutes(server: Server, options: AdminOptions): void {
  // A scope of its own, so that its errors say what a command can show.
  void server.register(async (scope) => {
    scope.setErrorHandler((error, _request, reply) => {
      if (!(error instanceof SyncError && error.code === 'body_invalid')) throw error;
      return reply.code(400).send(failureOf(error));
    });
    addRoutes(scope, options);
  });
}

interface AdminOptions {
  readonly workspaces: OpenWorkspaces;
  readonly installation: Installation;
  readonly sessions: Sessions;
  readonly clock: Clock;
}

function addRoutes(server: Server, { workspaces, installation, sessions, clock }: AdminOptions): void {
  const reached = (request: ServerRequest) =>
    workspaces.partitions().filter(({ name }) => reaches(callerOf(request), name));
  server.post('/admin/check', { config: { filters: true } }, async (request) => {
    bodyOf(request, nothing);
    const lost = [...workspaces.broken(), ...workspaces.rejected()].filter(([name]) =>
      reaches(callerOf(request), name),
    );
    return checkAll({ partitions: reached(request), wrong: new Map(lost) });
  });
  const named = (request: ServerRequest, reply: ServerReply) => {
    const { workspace } = request.params as { workspace: string };
    const partition = workspaces.find(workspace);
    const reason = workspaces.broken().get(workspace);
    if (reason) void reply.code(REFUSED).send(failureOf(reason));
    else if (!partition) void reply.code(404).send({ error: 'not_found' });
    return partition;
  };
  server.post('/admin/workspaces/:workspace/requests', async (request, reply) => {
    const partition = named(request, reply);
    return partition ? forward(partition, bodyOf(request, apiRequest), patienceOf(request)) : reply;
  });
  server.post('/admin/workspaces/:workspace/questions/:question', async (request, reply) => {
    const partition = named(request, reply);
    if (!partition) return reply;
    const { question } = request.params as { question: string };
    if (!isQuestion(question)) return reply.code(404).send({ error: 'not_found' });
    const asked = bodyOf(request, QUESTION_BODIES[question]);
    return answerQuestion(question, partition, asked, clock).catch((error: unknown) =>
      reply.code(REFUSED).send(failureOf(error)),
    );
  });
  const tokens = '/admin/workspaces/:workspace/gateway-tokens';
  server.get(tokens, async (request, reply) => named(request, reply)?.passage.tokens.list() ?? reply);
  server.post(tokens, async (request, reply) => {
    const { description } = bodyOf(request, newGatewayToken);
    return named(request, reply)?.passage.tokens.create(description) ?? reply;
  });
  server.post(`${tokens}/revoke`, async (request, reply) => {
    const partition = named(request, reply);
    const { id } = bodyOf(request, gatewayTokenId);
    return partition ? { revoked: await partition.passage.tokens.revoke(id) } : reply;
  });
  server.post('/admin/once', { config: { filters: true } }, async (request) => {
    bodyOf(request, nothing);
    return Promise.all(reached(request).map((partition) => pollOnce(partition, clock, patienceOf(request))));
  });
  server.post('/admin/login-links', { config: { filters: true } }, async (request) => {
    const { role, workspaces: limited } = bodyOf(request, loginWish);
    const caller = callerOf(request);
    const beyond = limited?.find((name) => !reaches(caller, name) || !workspaces.find(name));
    if (beyond !== undefined) throw new SyncError('body_invalid', `workspaces: there is no workspace "${beyond}"`);
    return { path: linkPath(await sessions.makeLink({ role, workspaces: limited ?? caller.workspaces })) };
  });
  server.post('/admin/forget', async (request, reply) => {
    const { workspace } = bodyOf(request, forgottenWorkspace);
    return forgetClosed(workspace).catch((error: unknown) => reply.code(REFUSED).send(failureOf(error)));
  });
  async function forgetClosed(workspace: string): Promise<{ rows: number }> {
    if (workspaces.find(workspace))
      throw new SyncError('conflict', `${workspace} has a configuration: remove its file first`);
    const rows = await forget(installation, workspace);
    workspaces.forget(workspace);
    return { rows };
  }
  server.post('/admin/sessions/end', async (request) => {
    bodyOf(request, nothing);
    return { ended: await sessions.endAll() };
  });
}

/** An answer of the workspace, or why there is none, on its way between two processes of one machine. */
export type Forwarded = { readonly answer: Omit<ApiResponse, 'body'> & { readonly body: string } } | Failure;

/** A question that is answered with an error of the registry, which the command then shows as its own. */
export const REFUSED = 422;

export interface Failure {
  readonly failure: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly hint: string;
    /** How long to wait until it may succeed, milliseconds, where that is known. */
    readonly retryAfter?: number;
  };
}

function failureOf(error: unknown): Failure {
  const { code, message, hint, retryAfter } = asSyncError(error);
  return { failure: { code, message, hint, retryAfter } };
}

/** How long the command waits for the quota, milliseconds. */
function patienceOf({ query }: ServerRequest): number {
  const { patience } = query as { patience?: unknown };
  return typeof patience === 'string' && /^\d{1,9}$/.test(patience) ? Number(patience) : 0;
}

async function forward({ send }: OpenWorkspace, request: ApiRequest, patience: number): Promise<Forwarded> {
  try {
    const { body, ...answer } = await send(request, { lane: 'interactive', patience });
    return { answer: { ...answer, body: body.toString('base64') } };
  } catch (error) {
    return failureOf(error);
  }
}
