import type { Task } from '../../model/task.ts';
import { namedStatus, type TaskStatuses } from '../../model/task-status.ts';
import type { WrittenStatus } from '../../model/written-task.ts';
import type { Random } from '../../platform/lib/clock.ts';
import { chunksOf, yieldForRequests } from '../../platform/lib/concurrency.ts';
import { type EntityRow, findEntities, saveEntity } from '../changes/entities.ts';
import { type StoredBody, unpackBody } from '../deliveries/inbox.ts';
import { readMeta, writeMeta } from '../meta.ts';
import { beginUnitOfWork, flushRows } from '../unit-of-work/unit-of-work.ts';
import { appendAnswer, readAnswer, WORKSPACE } from '../workspace/workspace-reads.ts';
import { CHUNK_SIZE, changeKeysInChunks, json, type Scope, type Store } from '../workspace-scope.ts';
import { forgetContests, tasksByIds } from './stored-tasks.ts';

/** Name of the fact that stores when the states were corrected, epoch milliseconds. */
const CORRECTED = 'own_moves_corrected';

/** The status of a task in the answer to an update by worksync. */
interface OwnState {
  readonly status: string;
  readonly updatedAt: string;
}

interface CorrectionContext {
  readonly statuses: TaskStatuses;
  /** Epoch milliseconds. */
  readonly now: number;
  readonly random: Pick<Random, 'uuid'>;
}

/**
 * Corrects, once for each workspace, the states of tasks in which a move by worksync counts as an edit by a person. Earlier versions
 * stored them so if an evaluation came between the answer to an update and its processing. Corrects only what a stored answer proves,
 * and has these tasks evaluated again. If the process ends before all are corrected, the next start repeats this without an effect
 * on corrected tasks.
 */
export async function correctOwnMoves(store: Store, context: CorrectionContext): Promise<void> {
  if ((await readMeta(store.query, CORRECTED)) !== undefined) return;
  const states = await ownStates(store.query);
  await changeKeysInChunks(store, [...states.keys()], (query, names) => correctTasks(query, names, states, context));
  await store.commit((query) => writeMeta(query, CORRECTED, String(context.now)));
}

type OwnStates = ReadonlyMap<string, readonly OwnState[]>;

/** Returns the states that the stored answers to updates showed, the oldest first, by the names of the updates. */
async function ownStates(query: Scope): Promise<OwnStates> {
  const requests = await query
    .selectFrom('requests')
    .select(['entity', 'answer'])
    .where('action', '=', 'update-task')
    .where('outcome', '=', 'answered')
    .where('answer', 'is not', null)
    .orderBy('id')
    .execute();
  const states = new Map<string, readonly OwnState[]>();
  for (const chunk of chunksOf(requests, CHUNK_SIZE)) {
    const keys = chunk.map(({ answer }) => `answer:${answer}`);
    const bodies = await query
      .selectFrom('inbox')
      .select(['delivery_key', 'body', 'unpacked_length'])
      .where('connection', '=', WORKSPACE)
      .where('delivery_key', 'in', keys)
      .where('body', 'is not', null)
      .execute();
    const byKey = new Map(bodies.map((row) => [row.delivery_key, row as StoredBody]));
    for (const { entity, answer } of chunk) {
      const state = ownStateIn(byKey.get(`answer:${answer}`));
      if (state !== undefined) states.set(entity, [...(states.get(entity) ?? []), state]);
    }
    await yieldForRequests();
  }
  return states;
}

/** Returns undefined if the answer lacks the state, or if its stored body is damaged: then it proves nothing. */
function ownStateIn(stored: StoredBody | undefined): OwnState | undefined {
  if (stored === undefined) return undefined;
  try {
    const { status, updatedAt } = (readAnswer(unpackBody(stored)).body ?? {}) as Partial<OwnState>;
    return typeof status === 'string' && typeof updatedAt === 'string' ? { status, updatedAt } : undefined;
  } catch {
    return undefined;
  }
}

/** Returns how many of these updates of tasks were corrected. */
async function correctTasks(
  query: Scope,
  names: readonly string[],
  states: OwnStates,
  { statuses, now, random }: CorrectionContext,
): Promise<number> {
  const unit = beginUnitOfWork(query);
  const rows = await findEntities(unit, names);
  const tasks = await tasksByIds(
    unit,
    rows.map(({ task_id }) => task_id as string),
  );
  const cachedTasks = new Map(tasks.map((task) => [task.taskId, task]));
  const evaluated: string[] = [];
  for (const row of rows) {
    const { known, contests } = corrected(
      row,
      states.get(row.entity) ?? [],
      cachedTasks.get(row.task_id as string),
      statuses,
    );
    if (known === row.known) continue;
    await saveEntity(unit, { ...row, known });
    await forgetContests(unit, contests);
    evaluated.push(row.entity);
  }
  await flushRows(unit);
  for (const entity of evaluated)
    await appendAnswer(query, { action: 'look-again', entity, sentAt: now, body: null }, random.uuid(), now);
  return evaluated.length;
}

/** Returns the corrected facts about a status, and the contests that did not take place. */
function corrected(
  row: EntityRow,
  own: readonly OwnState[],
  cached: Task | undefined,
  statuses: TaskStatuses,
): { readonly known: string | null; readonly contests: readonly number[] } {
  const written = json<WrittenStatus>(row.known) ?? {};
  const times = own.map(({ updatedAt }) => Date.parse(updatedAt));
  // A status cannot be reverted before it is written, nor at the very time of the write.
  const contests = (written.contested ?? []).filter((at) => times.includes(at) || at < (times[0] ?? 0));
  const contested = written.contested?.filter((at) => !contests.includes(at));
  const isEpochOurs = written.epoch !== undefined && times.includes(written.epoch);
  const last = own.at(-1);
  const isOurs = cached !== undefined && cached.status === last?.status && cached.updatedAt === last.updatedAt;
  const status = isOurs && written.moves !== undefined ? namedStatus(statuses, last.status) : undefined;
  const isSame = contests.length === 0 && !isEpochOurs && (status === undefined || status === written.status);
  if (isSame) return { known: row.known, contests };
  const { epoch, contested: _, ...others } = written;
  const known: WrittenStatus = {
    ...others,
    ...(epoch !== undefined && !isEpochOurs && { epoch }),
    ...(contested !== undefined && contested.length > 0 && { contested }),
    ...(status !== undefined && { status }),
  };
  return { known: JSON.stringify(known), contests };
}
