import { entity, type Written } from '../model/change.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { namedStatus, serverStatus } from '../model/task-status.ts';
import type { WrittenStatus } from '../model/written-status.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { findEntity, json } from '../store/changes/entities.ts';
import { readTaskUpdateFacts } from '../store/tasks/task-update-facts.ts';
import { isOff } from '../store/workspace/server-facts.ts';
import { appendAnswer } from '../store/workspace/workspace-answers.ts';
import { formsOf, strongTag, type TaskFields, updateBody, updateFormOf } from '../sync/outbox/task-update-body.ts';
import { requireTask } from './find-named.ts';
import type { OpenWorkspace } from './open-workspace.ts';

/** How long an undoing waits for a slot of the quota, milliseconds. */
const PATIENCE = 10_000;

/** A task that has its earlier status again, and the names of both statuses. */
export interface UndoneStatus {
  readonly task: string;
  readonly from: string;
  readonly to: string;
}

/**
 * Restores the status that a task had before worksync changed it last, if nobody has changed it since. It counts as a
 * status set by a person, so the rules leave it until the work enters a newer phase.
 */
export async function undoStatus(
  { store, client, config, random, wakeReconcile }: OpenWorkspace,
  { task: target }: { readonly task: string },
  clock: Clock,
): Promise<UndoneStatus> {
  const { taskId, name } = await requireTask(store.query, target);
  const row = await findEntity(store.query, entity.taskUpdate(taskId));
  const { status } = json<WrittenStatus>(row?.known ?? null) ?? {};
  const { from: previous } = json<Written>(row?.written ?? null) ?? {};
  if (status === undefined || previous === undefined)
    throw new SyncError('conflict', `the status of ${name} is none that worksync has set`);
  const { statuses } = config.workspace;
  const context = { lane: 'interactive', patience: PATIENCE } as const;
  const sentAt = clock.now();
  const read = await client.getTask({ taskId }, context);
  if (read.body.status !== serverStatus(statuses, status)) {
    const present = namedStatus(statuses, read.body.status);
    throw new SyncError('conflict', `worksync set ${name} to ${status}, and somebody has set it to ${present} since`);
  }
  const facts = await readTaskUpdateFacts(store.query);
  const [form] = formsOf(updateFormOf(config), facts);
  const body = updateBody(form, (read.raw ?? read.body) as TaskFields, { status: serverStatus(statuses, previous) });
  const ifMatch = isOff(facts.ifMatch, sentAt) ? undefined : strongTag(read.headers['etag']);
  const answer = await client.updateTask({ taskId, body: body as never, ifMatch }, context);
  const seen = { action: 'saw-task', entity: taskId, sentAt, body: answer.body } as const;
  await store.commit((transaction) => appendAnswer(transaction, seen, random.uuid(), clock.now()));
  wakeReconcile();
  return { task: name, from: status, to: previous };
}
