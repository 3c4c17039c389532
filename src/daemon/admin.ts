import type { ErrorCode } from '../errors/codes.ts';
import { asSyncError } from '../errors/sync-error.ts';
import { parseJson } from '../http/json.ts';
import type { Server, ServerReply, ServerRequest } from '../http/server.ts';
import type { Clock } from '../lib/clock.ts';
import type { ApiRequest, ApiResponse } from '../workspace/client.ts';
import { checkAll } from './check.ts';
import { pollOnce } from './once.ts';
import type { Partition } from './partition.ts';
import { answerQuestion } from './questions.ts';

/**
 * What commands beside a running daemon ask of it, so that they spend its quota and not their own. The doors let only
 * loopback and the admin token in.
 *
 * `POST /admin/check` answers a list of findings; `POST /admin/once?patience=<milliseconds>` one result for each
 * workspace, when it is done;
 * `POST /admin/workspaces/<name>/requests?patience=<milliseconds>` sends one request to the workspace in the interactive
 * lane and answers with its answer, the body in base64, or with a failure;
 * `POST /admin/workspaces/<name>/questions/<question>` answers one of `questions.ts`, or 422 with a failure;
 * `GET` and `POST /admin/workspaces/<name>/gateway-tokens` list and create gateway tokens, `POST …/revoke` revokes one.
 */
export function adminRoutes(
  server: Server,
  { partitions, clock }: { partitions: readonly Partition[]; clock: Clock },
): void {
  server.post('/admin/check', () => checkAll(partitions));
  const named = (request: ServerRequest, reply: ServerReply) => {
    const partition = partitions.find(({ name }) => name === (request.params as { name: string }).name);
    if (!partition) void reply.code(404).send({ error: 'not_found' });
    return partition;
  };
  server.post('/admin/workspaces/:name/requests', async (request, reply) => {
    const partition = named(request, reply);
    return partition ? forward(partition, bodyOf<ApiRequest>(request), patienceOf(request)) : reply;
  });
  server.post('/admin/workspaces/:name/questions/:question', async (request, reply) => {
    const partition = named(request, reply);
    if (!partition) return reply;
    const { question } = request.params as { question: string };
    const answer = answerQuestion(question, partition, bodyOf<unknown>(request), clock);
    if (answer === undefined) return reply.code(404).send({ error: 'not_found' });
    return answer.catch((error: unknown) => reply.code(REFUSED).send(failureOf(error)));
  });
  const tokens = '/admin/workspaces/:name/gateway-tokens';
  server.get(tokens, async (request, reply) => named(request, reply)?.passage.tokens.list() ?? reply);
  server.post(tokens, async (request, reply) => {
    const { description } = bodyOf<{ description: string }>(request);
    return named(request, reply)?.passage.tokens.create(description) ?? reply;
  });
  server.post(`${tokens}/revoke`, async (request, reply) => {
    const partition = named(request, reply);
    const { id } = bodyOf<{ id: string }>(request);
    return partition ? { revoked: await partition.passage.tokens.revoke(id) } : reply;
  });
  server.post('/admin/once', (request) =>
    Promise.all(partitions.map((partition) => pollOnce(partition, clock, patienceOf(request)))),
  );
}

function bodyOf<Body>(request: ServerRequest): Body {
  return parseJson(request.body as Buffer) as Body;
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

async function forward({ send }: Partition, request: ApiRequest, patience: number): Promise<Forwarded> {
  try {
    const { body, ...answer } = await send(request, { lane: 'interactive', patience });
    return { answer: { ...answer, body: body.toString('base64') } };
  } catch (error) {
    return failureOf(error);
  }
}
