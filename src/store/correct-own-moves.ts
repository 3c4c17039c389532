import { ownStatus, type StatusWords } from '../model/task-status.ts';
import type { WrittenStatus } from '../model/written-status.ts';
import { piecesOf } from '../platform/lib/pieces.ts';
import { type StoredBody, unpackBody } from './bodies.ts';
import { tasksByIds } from './cached-tasks.ts';
import { type EntityRow, findEntities, json, saveEntity } from './entities.ts';
import { CHUNK_SIZE } from './in-chunks.ts';
import { readMeta, writeMeta } from './meta.ts';
import { forgetContests } from './task-update-facts.ts';
import { appendAnswer, readAnswer, WORKSPACE } from './workspace-answers.ts';
import type { Scope } from './workspace-scope.ts';

/** Name of the fact that the stored states are corrected. */
const CORRECTED = 'own_moves_corrected';

/** A status of a task that an answer to worksync's own update showed. */
interface OwnState {
  readonly status: string;
  readonly updatedAt: string;
}

/**
 * Corrects, once for each workspace, the states of tasks in which a move of worksync counts as an edit by a person: versions until
 * 86c373fc stored them so if an evaluation came between the answer to an update and its processing. Only what a stored answer
 * proves is corrected. The tasks are evaluated again.
 *
 * @param words the words of the workspace for our statuses
 * @param next draws the id of a delivery
 */
export async function correctOwnMoves(
  query: Scope,
  words: StatusWords,
  { now, next }: { readonly now: number; readonly next: () => string },
): Promise<void> {
  if ((await readMeta(query, CORRECTED)) !== undefined) return;
  const states = await ownStates(query);
  for (const names of piecesOf([...states.keys()], CHUNK_SIZE)) {
    for (const row of await findEntities(query, names)) {
      const own = states.get(row.entity) ?? [];
      const { known, contests } = await corrected(query, row, own, words);
      if (known === row.known) continue;
      await saveEntity(query, { ...row, known });
      await forgetContests(query, contests);
      const evaluation = { action: 'look-again', entity: row.entity, sentAt: now, body: null } as const;
      await appendAnswer(query, evaluation, next(), now);
    }
  }
  await writeMeta(query, CORRECTED, String(now));
}

/** Returns the states that the stored answers to updates showed, by the names of the updates, the oldest first. */
async function ownStates(query: Scope): Promise<ReadonlyMap<string, readonly OwnState[]>> {
  const requests = await query
    .selectFrom('requests')
    .select(['entity', 'answer'])
    .where('action', '=', 'update-task')
    .where('outcome', '=', 'answered')
    .where('answer', 'is not', null)
    .orderBy('id')
    .execute();
  const states = new Map<string, OwnState[]>();
  for (const piece of piecesOf(requests, CHUNK_SIZE)) {
    const bodies = await query
      .selectFrom('inbox')
      .select(['delivery_key', 'body', 'unpacked_length'])
      .where('connection', '=', WORKSPACE)
      .where(
        'delivery_key',
        'in',
        piece.map(({ answer }) => `answer:${answer}`),
      )
      .where('body', 'is not', null)
      .execute();
    const byKey = new Map(bodies.map((row) => [row.delivery_key, row as StoredBody]));
    for (const { entity, answer } of piece) {
      const stored = byKey.get(`answer:${answer}`);
      const { status, updatedAt } = (stored ? (readAnswer(unpackBody(stored)).body ?? {}) : {}) as Partial<OwnState>;
      if (typeof status !== 'string' || typeof updatedAt !== 'string') continue;
      states.set(entity, [...(states.get(entity) ?? []), { status, updatedAt }]);
    }
  }
  return states;
}

/** Returns the corrected facts about a status, and the contests that did not take place. */
async function corrected(
  query: Scope,
  row: EntityRow,
  own: readonly OwnState[],
  words: StatusWords,
): Promise<{ readonly known: string | null; readonly contests: readonly number[] }> {
  const written = json<WrittenStatus>(row.known) ?? {};
  const times = own.map(({ updatedAt }) => Date.parse(updatedAt));
  // Nobody can take back a status before it is written, or at the very time of it.
  const contests = (written.contested ?? []).filter((at) => times.includes(at) || at < (times[0] ?? 0));
  const contested = written.contested?.filter((at) => !contests.includes(at));
  const isEpochOurs = written.epoch !== undefined && times.includes(written.epoch);
  const [cached] = await tasksByIds(query, [row.task_id as string]);
  const last = own.at(-1);
  const isOurs = cached !== undefined && cached.status === last?.status && cached.updatedAt === last.updatedAt;
  const status = isOurs && written.moves !== undefined ? ownStatus(words, last.status) : undefined;
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
