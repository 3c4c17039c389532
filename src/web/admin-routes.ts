import { isAdminOperation, runAdminOperation } from '../admin/admin-operations.ts';
import { type Actor, audited, auditedTokens, auditLog, sendAudited } from '../admin/audit.ts';
import { endSessions, forget } from '../admin/data.ts';
import { unknownName } from '../admin/named.ts';
import { isElsewhere, type OpenWorkspace } from '../admin/open-workspace.ts';
import { refusedRequests } from '../admin/refused.ts';
import { canAccess } from '../model/caller.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import type { Server, ServerReply, ServerRequest } from '../platform/http/server.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { actorOf, callerOf } from './access-control.ts';
import { type Forwarded, failureOf, REFUSED } from './admin-answers.ts';
import {
  apiRequest,
  auditWish,
  bodyOf,
  forgottenWorkspace,
  gatewayTokenId,
  loginWish,
  newGatewayToken,
  nothing,
  patienceOf,
  QUESTION_BODIES,
  refusedWish,
} from './admin-bodies.ts';
import { type AllWorkspacesOptions, allWorkspacesRoutes } from './all-workspaces-routes.ts';
import { linkPath } from './login-routes.ts';
import type { Sessions } from './sessions.ts';

/**
 * The requests of commands beside a running daemon, so that they use its quota and not their own. They show the token that the
 * daemon left for them; see `web/access-control.ts`.
 *
 * `POST /admin/check` answers a list of findings; `POST /admin/once?patience=<milliseconds>` one result for each workspace, when
 * it is done;
 * `POST /admin/workspaces/<name>/requests?patience=<milliseconds>` sends one request to the workspace in the interactive lane and
 * answers with its answer, the body in base64, or with a failure;
 * `POST /admin/workspaces/<name>/questions/<question>` answers one of `admin/admin-operations.ts`, or 422 with a failure;
 * `GET` and `POST /admin/workspaces/<name>/gateway-tokens` list and create gateway tokens, `POST …/revoke` revokes one;
 * `POST /admin/login-links` answers `{"path"}`, which logs one browser in, with no more rights than the caller has;
 * `POST /admin/forget` deletes the rows of a workspace that is not open, and answers their number;
 * `POST /admin/refused` answers the refused requests of the caller's workspaces, and to callers of all workspaces also those that
 * name none;
 * `POST /admin/audit` answers a page of the changes that people made in the caller's workspaces;
 * `POST /admin/sessions/end` logs all browsers out, and answers their number.
 */
export function adminRoutes(server: Server, options: AdminOptions): void {
  // A scope of its own, so that commands can show its errors.
  void server.register(async (scope) => {
    scope.setErrorHandler((error, _request, reply) => {
      if (!(error instanceof SyncError && ['body_invalid', 'usage'].includes(error.code))) throw error;
      return reply.code(400).send(failureOf(error));
    });
    addRoutes(scope, options);
  });
}

interface AdminOptions extends AllWorkspacesOptions {
  readonly sessions: Sessions;
}

function addRoutes(server: Server, options: AdminOptions): void {
  allWorkspacesRoutes(server, options);
  const { workspaces, installation, sessions, clock } = options;
  const served = () => [
    ...workspaces.partitions().map(({ name }) => name),
    ...[...workspaces.broken().keys()].filter((name) => isElsewhere(workspaces, name)),
  ];
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
    return partition ? forward(partition, request, clock) : reply;
  });
  server.post('/admin/workspaces/:workspace/questions/:question', async (request, reply) => {
    const partition = named(request, reply);
    if (!partition) return reply;
    const { question } = request.params as { question: string };
    if (!isAdminOperation(question)) return reply.code(404).send({ error: 'not_found' });
    const asked = bodyOf(request, QUESTION_BODIES[question]);
    return runAdminOperation(question, partition, asked, clock, actorOf(request)).catch((error: unknown) =>
      reply.code(REFUSED).send(failureOf(error)),
    );
  });
  const tokens = '/admin/workspaces/:workspace/gateway-tokens';
  const tokensOf = (request: ServerRequest, reply: ServerReply) => {
    const partition = named(request, reply);
    return partition && auditedTokens(partition, { actor: actorOf(request), clock });
  };
  server.get(tokens, async (request, reply) => tokensOf(request, reply)?.list() ?? reply);
  server.post(tokens, async (request, reply) => {
    const { description } = bodyOf(request, newGatewayToken);
    return tokensOf(request, reply)?.create(description) ?? reply;
  });
  server.post(`${tokens}/revoke`, async (request, reply) => {
    const found = tokensOf(request, reply);
    const { id } = bodyOf(request, gatewayTokenId);
    return found ? { revoked: await found.revoke(id) } : reply;
  });
  server.post('/admin/login-links', { config: { filters: true } }, async (request) => {
    const { role, workspaces: limited } = bodyOf(request, loginWish);
    const caller = callerOf(request);
    const known = served().filter((name) => canAccess(caller, name));
    const beyond = limited?.find((name) => !known.includes(name));
    if (beyond !== undefined) throw unknownName('workspace', beyond, known);
    const access = { role, workspaces: limited ?? caller.workspaces };
    const subject = `${role}${access.workspaces === null ? '' : `: ${access.workspaces.join(', ')}`}`;
    const act = { actor: actorOf(request), action: 'login-link', workspace: null, subject };
    const books = { query: installation.query, clock };
    return {
      path: linkPath(
        await audited(
          books,
          act,
          () => sessions.makeLink(access),
          () => ({ count: 1 }),
        ),
      ),
    };
  });
  server.post('/admin/forget', async (request, reply) => {
    const { workspace } = bodyOf(request, forgottenWorkspace);
    return forgetClosed(workspace, actorOf(request)).catch((error: unknown) =>
      reply.code(REFUSED).send(failureOf(error)),
    );
  });
  async function forgetClosed(workspace: string, actor: Actor): Promise<{ rows: number }> {
    if (workspaces.find(workspace) || isElsewhere(workspaces, workspace))
      throw new SyncError('conflict', `${workspace} still has a configuration`, {
        hint: 'Remove its file from the configuration. The daemon applies that within a minute. It keeps its last workspace until it stops: then stop it first.',
      });
    const rows = await forget(installation, workspace, { actor, clock });
    workspaces.forget(workspace);
    return { rows };
  }
  server.post('/admin/refused', { config: { filters: true } }, async (request) => {
    const { limit } = bodyOf(request, refusedWish);
    return refusedRequests(installation.query, { workspaces: callerOf(request).workspaces, limit });
  });
  server.post('/admin/audit', { config: { filters: true } }, async (request) =>
    auditLog(
      installation.query,
      { ...bodyOf(request, auditWish), workspaces: callerOf(request).workspaces },
      clock.now(),
    ),
  );
  server.post('/admin/sessions/end', async (request) => {
    bodyOf(request, nothing);
    return { ended: await endSessions(installation, { actor: actorOf(request), clock }, () => sessions.endAll()) };
  });
}

async function forward(partition: OpenWorkspace, request: ServerRequest, clock: Clock): Promise<Forwarded> {
  const wanted = bodyOf(request, apiRequest);
  const context = { lane: 'interactive', patience: patienceOf(request) } as const;
  try {
    const { body, ...answer } = await sendAudited(partition, wanted, context, { actor: actorOf(request), clock });
    return { answer: { ...answer, body: body.toString('base64') } };
  } catch (error) {
    return failureOf(error);
  }
}
