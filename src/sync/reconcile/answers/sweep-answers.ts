import { entity } from '../../../model/change.ts';
import type { ItemKey } from '../../../model/item.ts';
import { forgetEntity, saveEntity } from '../../../store/changes/entities.ts';
import { findChange, findChanges } from '../../../store/changes/outbox-rows.ts';
import { flushRows } from '../../../store/unit-of-work/unit-of-work.ts';
import { type Answer, appendAnswer, enqueueReads } from '../../../store/workspace/workspace-reads.ts';
import {
  absentRecords,
  beginList,
  findRunningSweep,
  noteListed,
  recordsSwept,
  type Sweep,
} from '../../../store/workspace/workspace-sweeps.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { AnswerContext } from '../context.ts';

// The lists of a sweep round advance it: see `store/workspace/workspace-sweeps.ts`.

/** The effects of an answer that may belong to a round. */
export interface SweepResult {
  /** Items to evaluate. */
  readonly reevaluate: readonly ItemKey[];
  /** The round, if this answer ended it. */
  readonly swept?: Sweep | undefined;
}

/** Returns the open round if this list was requested after its start. */
export async function sweepOf(query: Scope, { sentAt }: Answer): Promise<Sweep | undefined> {
  const sweep = await findRunningSweep(query);
  return sweep && sentAt >= sweep.started_at ? sweep : undefined;
}

/**
 * Advances the round by a page of records, whose entities are given. Only a list that began within the round can prove that a record is missing.
 * A list that begins again replaces the previous one.
 */
export async function advanceByRecords(
  query: Scope,
  sweep: Sweep,
  { cursor, sentAt, page }: Answer,
  listed: readonly string[],
  now: number,
): Promise<void> {
  if (sweep.records_at !== null) return;
  const { isEnd, isComplete } = page ?? { isEnd: true, isComplete: true };
  const { list_began_at: began } = cursor === undefined ? await beginList(query, sweep, sentAt) : sweep;
  if (began !== null) await noteListed(query, listed);
  if (!isEnd) return;
  if (began === null) await enqueueReads(query, [entity.readPullRequests], now, 'backfill');
  // An incomplete list proves no absence.
  else if (!isComplete) await recordsSwept(query, sweep, now);
  else await compareFrom(query, sweep, began, '', now);
}

/**
 * Appends the next step as a delivery of its own, so that no other work waits for all steps and a crash repeats only
 * one.
 *
 * @param began when the first page of the compared list was requested
 * @param after the known record that was compared last
 */
async function compareFrom(query: Scope, { id }: Sweep, began: number, after: string, now: number): Promise<void> {
  const answer = { action: 'compare-records', entity: after, sentAt: began, body: null } as const;
  await flushRows(query);
  await appendAnswer(query, answer, `compare-${id}-${began}-${after}`, now);
}

/**
 * Compares the next known records with the list of the round. A missing record is no longer known; if it is desired, it
 * is written again. Records with a request in flight are skipped, because its answer decides.
 */
export async function continueComparison(
  query: Scope,
  { entity: after, sentAt: began }: Answer,
  { now }: AnswerContext,
): Promise<SweepResult> {
  const sweep = await findRunningSweep(query);
  if (!sweep || sweep.list_began_at !== began || sweep.records_at !== null) return { reevaluate: [] };
  await flushRows(query);
  const { absent, next } = await absentRecords(query, { listBegan: began, after });
  const reevaluate: ItemKey[] = [];
  const names = absent.map((row) => row.entity);
  await findChanges(query, names);
  for (const row of absent) {
    if ((await findChange(query, row.entity))?.sent != null) continue;
    if (row.item_key === null) await forgetEntity(query, row.entity);
    else {
      await saveEntity(query, { ...row, known: null, known_at: now });
      reevaluate.push(row.item_key);
    }
  }
  if (next === undefined) return { reevaluate, swept: await recordsSwept(query, sweep, now) };
  await compareFrom(query, sweep, began, next, now);
  return { reevaluate };
}
