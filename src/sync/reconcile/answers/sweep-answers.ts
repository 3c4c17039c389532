import { entity } from '../../../model/change.ts';
import { forgetEntity, saveEntity } from '../../../store/entities.ts';
import { findChange, findChanges } from '../../../store/outbox-rows.ts';
import { flushRows } from '../../../store/unit-of-work/unit-of-work.ts';
import { type Answer, appendAnswer } from '../../../store/workspace-answers.ts';
import { enqueueReads } from '../../../store/workspace-reads.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import {
  absentRecords,
  addFindings,
  beginList,
  noteListed,
  openSweep,
  recordsSwept,
  type Sweep,
  tasksSwept,
} from '../../../store/workspace-sweeps.ts';
import type { EvaluationContext } from '../context.ts';

/** How the lists of a round advance it: see `store/workspace-sweeps.ts`. */

/** The effects of an answer that may belong to a round. */
export interface Swept {
  /** Items to look at again. */
  readonly again: readonly string[];
  /** The round, if this answer ended it. */
  readonly swept?: Sweep | undefined;
}

/** The round that this list belongs to: one that was asked for before it. */
export async function sweepOf(query: Scope, { sentAt }: Answer): Promise<Sweep | undefined> {
  const sweep = await openSweep(query);
  return sweep && sentAt >= sweep.started_at ? sweep : undefined;
}

interface Tasks {
  readonly count: number;
  /** Keys of those that people changed, and of those that are not there any more. */
  readonly changed: readonly string[];
  readonly missing: readonly string[];
}

/** @returns the round where this ends it */
export async function onTaskList(
  query: Scope,
  sweep: Sweep,
  { count, changed, missing }: Tasks,
  { now }: EvaluationContext,
): Promise<Sweep | undefined> {
  const findings = [
    ...changed.map((key) => ({ what: 'task-changed' as const, entity: key })),
    ...missing.map((key) => ({ what: 'task-missing' as const, entity: key })),
  ];
  await addFindings(query, findings, now);
  return tasksSwept(query, sweep, count, now);
}

interface Page {
  /** The entities of the records on it. */
  readonly listed: readonly string[];
  readonly isEnd: boolean;
  readonly isComplete: boolean;
}

/**
 * Only a list that began within the round can prove that something is missing; a list that begins again ends what the previous
 * one began.
 */
export async function onRecordPage(
  query: Scope,
  sweep: Sweep,
  { cursor, sentAt }: Answer,
  { listed, isEnd, isComplete }: Page,
  { now }: EvaluationContext,
): Promise<void> {
  if (sweep.records_at !== null) return;
  const { list_began_at: began } = cursor === undefined ? await beginList(query, sweep, sentAt) : sweep;
  if (began !== null) await noteListed(query, listed);
  if (!isEnd) return;
  if (began === null) await enqueueReads(query, [entity.readPullRequests], now, 'backfill');
  // An incomplete list proves nothing about what it lacks.
  else if (!isComplete) await recordsSwept(query, sweep, now);
  else await compareFrom(query, sweep, { began, after: '' }, now);
}

/** Which list is compared, by when its first page was asked for, and which of the known records were compared last. */
interface Part {
  readonly began: number;
  readonly after: string;
}

/** Some at a time, each part a delivery of its own, so that nobody waits for all and a kill costs no more than one. */
async function compareFrom(query: Scope, { id }: Sweep, { began, after }: Part, now: number): Promise<void> {
  const answer = { action: 'compare-records', entity: after, sentAt: began, body: null } as const;
  await flushRows(query);
  await appendAnswer(query, answer, `compare-${id}-${began}-${after}`, now);
}

/**
 * The next part of what the list lacks. A missing record is no longer known; if it is desired, it is written again. The answer
 * to our own request in flight decides about that one.
 */
export async function onCompare(
  query: Scope,
  { entity: after, sentAt: began }: Answer,
  { now }: EvaluationContext,
): Promise<Swept> {
  const sweep = await openSweep(query);
  if (!sweep || sweep.list_began_at !== began || sweep.records_at !== null) return { again: [] };
  await flushRows(query);
  const { absent, next } = await absentRecords(query, { listBegan: began, after });
  const again: string[] = [];
  await findChanges(
    query,
    absent.map((row) => row.entity),
  );
  for (const row of absent) {
    if ((await findChange(query, row.entity))?.sent != null) continue;
    if (row.item_key === null) await forgetEntity(query, row.entity);
    else {
      await saveEntity(query, { ...row, known: null, known_at: now });
      again.push(row.item_key);
    }
  }
  if (next === undefined) return { again, swept: await recordsSwept(query, sweep, now) };
  await compareFrom(query, sweep, { began, after: next }, now);
  return { again };
}
