import { z } from 'zod';
import { audited, auditLog, auditSchema, sendAudited } from '../admin/access/audit.ts';
import { refusedRequests, refusedSchema } from '../admin/access/refused.ts';
import { type AdminOperation, isAdminOperation, OPERATIONS, runAdminOperation } from '../admin/admin-operations.ts';
import { endSessions, forget } from '../admin/installation/data.ts';
import { notPolled, type OnceResult, pollOnce } from '../admin/installation/once.ts';
import { unknownName } from '../admin/named.ts';
import { emptySchema, isElsewhere, type OpenWorkspace, textSchema } from '../admin/open-workspace.ts';
import { checkAll, checkWhole, unchecked } from '../admin/status/check.ts';
import { namesOfReplicas, type ServedDaemon } from '../admin/status/whole-status.ts';
import { pullRequestTasks } from '../admin/tasks/pull-request-tasks.ts';
import { canAccess } from '../model/caller.ts';
import { SyncError } from '../model/errors.ts';
import { JsonError, parseJson } from '../platform/http/parse-json.ts';
import type { Server, ServerReply, ServerRequest } from '../platform/http/server.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { ROUTES, type RouteName } from '../workspace-api/contract.ts';
import type { ApiRequest } from '../workspace-api/typed-client.ts';
import { actorOf, callerOf, isPassedOn } from './access/access-control.ts';
import type { Sessions } from './access/callers.ts';
import { linkPath } from './access/login-routes.ts';
import { type Forwarded, failureOf, REFUSED } from './admin-answers.ts';
import { patienceOf, queryReplicas } from './forward-request.ts';

/**
 * The requests of commands beside a running daemon, so that they use its quota and not their own. They show the token that the
 * daemon left for them; see `web/access/access-control.ts`.
 *
 * `POST /admin/check` answers a list of findings; `POST /admin/once?patience=<milliseconds>` one result for each workspace, when
 * it is done;
 * `POST /admin/workspaces/<name>/requests?patience=<milliseconds>` sends one request to the workspace in the interactive lane and
 * answers with its answer, the body in base64, or with a failure;
 * `POST /admin/workspaces/<name>/questions/<question>` runs one of `OPERATIONS`, and answers 422 with a
 * failure if it fails; the operations on gateway tokens have addresses of their own;
 * `POST /admin/login-links` answers `{"path"}`, which logs one browser in, with no more rights than the caller has;
 * `POST /admin/forget` deletes the rows of a workspace that is not open, and answers their number;
 * `POST /admin/refused` answers the refused requests of the caller's workspaces, and to callers of all workspaces also those that
 * name none;
 * `POST /admin/audit` answers a page of the changes that people made in the caller's workspaces;
 * `POST /admin/sessions/end` logs all browsers out, and answers their number.
 */
export function adminRoutes(server: Server, daemon: ServedDaemon, sessions: Sessions): void {
  // A scope of its own, so that commands can show its errors.
  void server.register(async (scope) => {
    scope.setErrorHandler((error, _request, reply) => {
      if (!(error instanceof SyncError && ['body_invalid', 'usage'].includes(error.code))) throw error;
      return reply.code(400).send(failureOf(error));
    });
    workspaceRoutes(scope, daemon);
    allWorkspacesRoutes(scope, daemon);
    installationRoutes(scope, daemon, sessions);
  });
}

const refuse = (reply: ServerReply) => (error: unknown) => reply.code(REFUSED).send(failureOf(error));

function workspaceRoutes(server: Server, { workspaces, clock }: ServedDaemon): void {
  const named = (request: ServerRequest, reply: ServerReply) => {
    const { workspace } = request.params as { workspace: string };
    const partition = workspaces.find(workspace);
    const reason = workspaces.broken().get(workspace);
    if (reason) void refuse(reply)(reason);
    else if (!partition) void reply.code(404).send({ error: 'not_found' });
    return partition;
  };
  const run = (name: AdminOperation | undefined, request: ServerRequest, reply: ServerReply) => {
    const partition = named(request, reply);
    if (!partition) return reply;
    if (!name) return reply.code(404).send({ error: 'not_found' });
    const body = bodyOf<unknown>(request, OPERATIONS[name].body);
    return runAdminOperation(name, partition, body as never, clock, actorOf(request)).catch(refuse(reply));
  };
  server.post('/admin/workspaces/:workspace/requests', async (request, reply) => {
    const partition = named(request, reply);
    return partition ? forward(partition, request, clock) : reply;
  });
  server.post('/admin/workspaces/:workspace/questions/:question', async (request, reply) => {
    const { question } = request.params as { question: string };
    return run(isAdminOperation(question) && !OPERATIONS[question].route ? question : undefined, request, reply);
  });
  for (const [name, { route }] of Object.entries(OPERATIONS))
    if (route)
      server.route({
        method: route[0],
        url: `/admin/workspaces/:workspace/${route[1]}`,
        handler: async (request, reply) => run(name as AdminOperation, request, reply),
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

/** Milliseconds that another process may take to check, and to poll in addition to the caller's wait for the quota. */
const LONGEST_CHECK = 120_000;
const LONGEST_POLL = 60_000;

/** The requests of commands about all workspaces of the caller: each process answers for its own. */
function allWorkspacesRoutes(server: Server, daemon: ServedDaemon): void {
  const { workspaces, clock, sharing } = daemon;
  const reached = (request: ServerRequest) =>
    workspaces.partitions().filter(({ name }) => canAccess(callerOf(request), name));
  const elsewhere = async <Answer>(request: ServerRequest, patience: number) =>
    sharing && !isPassedOn(request)
      ? queryReplicas<Answer>(request, callerOf(request), { replicas: sharing.replicas, patience })
      : [];
  const silentAbout = (results: readonly OnceResult[], request: ServerRequest) =>
    [...workspaces.broken().keys()]
      .filter((name) => isElsewhere(workspaces, name) && canAccess(callerOf(request), name))
      .filter((name) => results.every(({ workspace }) => workspace !== name))
      .map((name) => notPolled(name));
  server.post('/admin/check', { config: { filters: true } }, async (request) => {
    bodyOf(request, emptySchema);
    // Another process checks the workspaces that it owns.
    const broken = [...workspaces.broken()].filter(([name]) => !isElsewhere(workspaces, name));
    const lost = [...broken, ...workspaces.rejected()].filter(([name]) => canAccess(callerOf(request), name));
    const checked = { partitions: reached(request), wrong: new Map(lost), clock };
    // Callers with some workspaces only must not see servers and files of the whole process.
    const isLimited = callerOf(request).workspaces !== null || isPassedOn(request);
    const [own, others] = await Promise.all([
      isLimited ? checkAll(checked) : checkWhole({ ...daemon, ...checked }),
      elsewhere<Awaited<ReturnType<typeof checkAll>>>(request, LONGEST_CHECK),
    ]);
    const names = namesOfReplicas(others.map(({ replica }) => replica));
    const findings = others.map(({ replica, answer }) => answer ?? [unchecked(names.get(replica.id) ?? replica.host)]);
    return [...own, ...findings.flat()];
  });
  server.post('/admin/once', { config: { filters: true } }, async (request) => {
    bodyOf(request, emptySchema);
    const patience = patienceOf(request);
    const [own, others] = await Promise.all([
      Promise.all(reached(request).map((partition) => pollOnce(partition, clock, patience))),
      elsewhere<OnceResult[]>(request, patience + LONGEST_POLL),
    ]);
    const results = [...own, ...others.flatMap(({ answer }) => answer ?? [])];
    return isPassedOn(request) ? results : [...results, ...silentAbout(results, request)];
  });
}

function installationRoutes(
  server: Server,
  { workspaces, installation, clock }: ServedDaemon,
  sessions: Sessions,
): void {
  const served = () => [
    ...workspaces.partitions().map(({ name }) => name),
    ...[...workspaces.broken().keys()].filter((name) => isElsewhere(workspaces, name)),
  ];
  server.post('/admin/login-links', { config: { filters: true } }, async (request) => {
    const { role, workspaces: limited } = bodyOf(request, loginSchema);
    const caller = callerOf(request);
    const known = served().filter((name) => canAccess(caller, name));
    const beyond = limited?.find((name) => !known.includes(name));
    if (beyond !== undefined) throw unknownName('workspace', beyond, known);
    const access = { role, workspaces: limited ?? caller.workspaces };
    const subject = `${role}${access.workspaces === null ? '' : `: ${access.workspaces.join(', ')}`}`;
    const act = { actor: actorOf(request), action: 'login-link', workspace: null, subject };
    const makeLink = () => sessions.makeLink(access);
    const link = await audited({ query: installation.query, clock }, act, makeLink, () => ({ count: 1 }));
    return { path: linkPath(link) };
  });
  server.post('/admin/forget', async (request, reply) => {
    const { workspace } = bodyOf(request, forgetSchema);
    if (workspaces.find(workspace) || isElsewhere(workspaces, workspace))
      return refuse(reply)(
        new SyncError('conflict', `${workspace} still has a configuration`, {
          hint: 'Remove its file from the configuration. The daemon applies that within a minute. It keeps its last workspace until it stops: then stop it first.',
        }),
      );
    try {
      const rows = await forget(installation, workspace, { actor: actorOf(request), clock });
      workspaces.forget(workspace);
      return { rows };
    } catch (error) {
      return refuse(reply)(error);
    }
  });
  server.post('/admin/refused', { config: { filters: true } }, async (request) => {
    const { workspaces: limited } = callerOf(request);
    return refusedRequests(installation.query, { ...bodyOf(request, refusedSchema), workspaces: limited });
  });
  server.post('/admin/audit', { config: { filters: true } }, async (request) => {
    const { workspaces: limited } = callerOf(request);
    return auditLog(installation.query, { ...bodyOf(request, auditSchema), workspaces: limited }, clock.now());
  });
  server.post('/admin/sessions/end', async (request) => {
    bodyOf(request, emptySchema);
    return { ended: await endSessions(installation, { actor: actorOf(request), clock }) };
  });
}

/** The rights of a login link: the role, and the workspaces (null: all that the caller may access). */
const loginSchema = z.strictObject({
  role: z.enum(['read', 'admin']),
  workspaces: z.array(textSchema).min(1).max(1_000).nullable(),
});

const forgetSchema = z.strictObject({ workspace: textSchema });

function bodyOf<Body>({ body }: Pick<ServerRequest, 'body'>, schema: z.ZodType<Body>): Body {
  const checked = schema.safeParse(read(body));
  if (checked.success) return checked.data;
  const places = checked.error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`);
  throw new SyncError('body_invalid', places.join('\n'));
}

/** No body counts as an empty object. */
function read(body: unknown): unknown {
  if (!Buffer.isBuffer(body) || body.length === 0) return {};
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) throw new SyncError('body_invalid', `the body: ${error.message}`, { cause: error });
    throw error;
  }
}

/** A path below the base address of the workspace, without a host or a step upwards in any spelling. */
const PATH = /^(?:\/(?!\.{1,2}(?:\/|$))(?:[A-Za-z0-9._~!'()*-]|%(?!2[eEfF]|5[cC]|25|00)[0-9A-Fa-f]{2})+)+$/;

/** A request that a command sends to the workspace. */
const apiRequest: z.ZodType<ApiRequest> = z.strictObject({
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
  path: z.string().max(4_000).regex(PATH, 'expected a path below the base address of the API'),
  query: z
    .string()
    .max(16_000)
    .regex(/^[^#\s]*$/, 'expected an encoded query')
    .optional(),
  headers: z.record(
    z.string().regex(/^[\w-]{1,100}$/),
    z
      .string()
      .max(4_000)
      .regex(/^[^\r\n]*$/),
  ),
  body: z.unknown().optional(),
  route: z.custom<RouteName>((name) => typeof name === 'string' && Object.hasOwn(ROUTES, name), 'expected a route'),
});

const text = z.string().min(1).max(1_000);

/** The query: `?target=…` up to three times, the most certain first, and `&provider=…`. */
const querySchema = z.strictObject({
  target: z.union([text.transform((one) => [one]), z.array(text).max(3)]),
  provider: z.string().max(64).optional(),
});

/**
 * The requests of CI jobs with a gateway token, about the workspace of the token. Answered from the database, without quota.
 *
 * `GET /ci/pull-request?target=<key, address or name>&provider=<connector>` answers a `PullRequestTasks`, or 422 with a failure.
 * An unknown pull request is an answer too.
 */
export function ciRoutes(server: Server, { workspaces, clock }: Pick<ServedDaemon, 'workspaces' | 'clock'>): void {
  server.get('/ci/pull-request', { config: { access: 'gateway' } }, async (request, reply) => {
    try {
      const checked = querySchema.safeParse(request.query);
      if (!checked.success) throw new SyncError('usage', 'expected target, up to three times, and provider');
      const [name = ''] = callerOf(request).workspaces ?? [];
      const partition = workspaces.find(name);
      if (!partition)
        throw workspaces.broken().get(name) ?? new SyncError('held_elsewhere', `"${name}" is not open here`);
      const { target: targets, provider } = checked.data;
      return await pullRequestTasks(partition, { targets, provider }, clock);
    } catch (error) {
      return reply.code(REFUSED).send(failureOf(error));
    }
  });
}
