import { z } from 'zod';
import type { ServedDaemon } from '../admin/status/whole-status.ts';
import { pullRequestTasks } from '../admin/tasks/pull-request-tasks.ts';
import { SyncError } from '../model/errors.ts';
import type { Server } from '../platform/http/server.ts';
import { callerOf } from './access/access-control.ts';
import { failureOf, REFUSED } from './admin-answers.ts';

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
