import type { ErrorCode } from '../errors/codes.ts';
import { asSyncError } from '../errors/sync-error.ts';
import { parseJson } from '../http/json.ts';
import type { Server } from '../http/server.ts';
import type { Clock } from '../lib/clock.ts';
import type { ApiRequest, ApiResponse } from '../workspace/client.ts';
import { checkPartition } from './check.ts';
import { pollOnce } from './once.ts';
import type { Partition } from './partition.ts';

/**
 * What commands beside a running daemon ask of it, so that they spend its quota and not their own. The doors let only
 * loopback and the admin token in.
 *
 * `POST /admin/check` answers a list of findings; `POST /admin/once` one result for each workspace, when it is done;
 * `POST /admin/workspaces/<name>/requests` sends one request to the workspace in the interactive lane and answers with
 * its answer, the body in base64, or with a failure.
 */
export function adminRoutes(
  server: Server,
  { partitions, clock }: { partitions: readonly Partition[]; clock: Clock },
): void {
  server.post('/admin/check', async () => (await Promise.all(partitions.map(checkPartition))).flat());
  server.post<{ Params: { name: string } }>('/admin/workspaces/:name/requests', async (request, reply) => {
    const partition = partitions.find(({ name }) => name === request.params.name);
    if (!partition) return reply.code(404).send({ error: 'not_found' });
    const forwarded = parseJson(request.body as Buffer) as ApiRequest;
    return forward(partition, forwarded);
  });
  server.post('/admin/once', () => Promise.all(partitions.map((partition) => pollOnce(partition, clock))));
}

/** An answer of the workspace, or why there is none, on its way between two processes of one machine. */
export type Forwarded =
  | { readonly answer: Omit<ApiResponse, 'body'> & { readonly body: string } }
  | { readonly failure: { readonly code: ErrorCode; readonly message: string; readonly hint: string } };

async function forward({ send }: Partition, request: ApiRequest): Promise<Forwarded> {
  try {
    const { body, ...answer } = await send(request, { lane: 'interactive' });
    return { answer: { ...answer, body: body.toString('base64') } };
  } catch (error) {
    const { code, message, hint } = asSyncError(error);
    return { failure: { code, message, hint } };
  }
}
