import { createHash } from 'node:crypto';
import { entity } from '../../../model/change.ts';
import type { ItemKey } from '../../../model/item.ts';
import { isOlder } from '../../../model/workspace-time.ts';
import {
  allLinksOfItem,
  blankEntity,
  type EntityRow,
  findEntity,
  recordedItemsAfter,
  saveEntity,
} from '../../../store/changes/entities.ts';
import { findChange } from '../../../store/changes/outbox-rows.ts';
import { PULL_REQUESTS_READ, writeMeta } from '../../../store/meta.ts';
import { flushRows, runSequentially } from '../../../store/unit-of-work/unit-of-work.ts';
import { takeReopened } from '../../../store/workspace/server-capabilities.ts';
import { type Answer, appendAnswer } from '../../../store/workspace/workspace-reads.ts';
import { json, type Scope } from '../../../store/workspace-scope.ts';
import type { AnswerContext } from '../context.ts';
import { differingFields } from '../evaluate-record.ts';
import { compareLinks, type Report } from './link-answers.ts';
import { type ListedRecord, recordPage, recordShape } from './shapes.ts';
import { advanceByRecords, sweepOf } from './sweep-answers.ts';

type RecordFields = Readonly<Record<string, unknown>>;

/**
 * Keys of a known record besides its fields: a hash of the server's spelling, and the time of the last change by the
 * server's clock. They identify the echo of our own write, and the echo of an earlier one.
 */
const SPELLING = 'spelling';
const CHANGED_AT = 'changedAt';

function echoMarks(record: ListedRecord): RecordFields {
  return { [SPELLING]: spellingOf(record), ...(record.updatedAt ? { [CHANGED_AT]: record.updatedAt } : {}) };
}

function spellingOf({ taskIds: _taskIds, updatedAt: _updatedAt, ...fields }: ListedRecord): string {
  const sorted = Object.entries(fields).sort(([left], [right]) => (left < right ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted)).digest('base64');
}

function entityOf({ provider, repoId, identifier }: ListedRecord): string {
  return entity.pullRequest(provider, repoId, identifier);
}

/**
 * Applies the answer to our own write. The record is known as worksync wrote it, so that the server's spelling is no
 * difference. Returns the items to evaluate.
 */
export async function applyOwnRecord(query: Scope, answer: Answer, { now }: AnswerContext): Promise<ItemKey[]> {
  const record = recordShape.parse(answer.body);
  const row = await rowOf(query, record);
  return saveKnown(query, row, json(row.known) ?? record, record, { answer, now, isSwept: false });
}

async function rowOf(query: Scope, record: ListedRecord): Promise<EntityRow> {
  const name = entityOf(record);
  return (await findEntity(query, name)) ?? blankEntity(name, 'pull_request');
}

interface RecordChanges {
  /** The items to evaluate. */
  readonly reevaluate: readonly ItemKey[];
  /** The items among them whose record another client has changed. */
  readonly edited: readonly ItemKey[];
}

const NO_CHANGES: RecordChanges = { reevaluate: [], edited: [] };

/**
 * Applies a record as it exists in the workspace: the echo of our own write, or another client's. The latter becomes
 * the known state; if it differs from the provider's state, the record is written again. Content decides which of them
 * it is, not time. A report that was requested before our last write is ignored.
 */
async function applyReported(query: Scope, record: ListedRecord, report: Report): Promise<RecordChanges> {
  const row = await rowOf(query, record);
  const known = json(row.known);
  if (known === undefined) return { reevaluate: await saveKnown(query, row, record, record, report), edited: [] };
  if (isOlder(record.updatedAt, known[CHANGED_AT])) return NO_CHANGES;
  const isOutdated = (row.known_at ?? 0) > report.answer.sentAt;
  if (isEcho(known, record)) {
    if (isOutdated && !known[SPELLING]) return NO_CHANGES;
    return { reevaluate: await saveKnown(query, row, known, record, report), edited: [] };
  }
  // The answer to our own request that is in flight, or has an unknown outcome, settles both.
  if (isOutdated || (await findChange(query, row.entity))?.sent != null) return NO_CHANGES;
  const { taskIds = known['taskIds'] } = record;
  await saveKnown(query, { ...row, known_at: report.now }, { ...record, taskIds }, record, report);
  const edited = row.item_key === null ? [] : [row.item_key];
  return { reevaluate: edited, edited };
}

function isEcho(known: RecordFields, record: ListedRecord): boolean {
  const { [SPELLING]: spelling, [CHANGED_AT]: _, taskIds: __, ...fields } = known;
  // Without a spelling, the answer to our write has not been applied yet.
  if (spelling === undefined) return differingFields(fields, record).length === 0;
  return spelling === spellingOf(record);
}

/** Saves the known record and compares its links. Returns the items to evaluate. */
async function saveKnown(
  query: Scope,
  row: EntityRow,
  known: RecordFields,
  record: ListedRecord,
  report: Report,
): Promise<ItemKey[]> {
  const { asOf = 0 } = report.answer;
  const taskIds = record.taskIds && (await withoutRemovedLinks(query, row.item_key, record.taskIds, asOf));
  const next = JSON.stringify({ ...known, taskIds: taskIds ?? known['taskIds'], ...echoMarks(record) });
  if (next !== row.known) await saveEntity(query, { ...row, known: next, known_at: row.known_at ?? report.now });
  if (row.item_key === null) return [];
  const hasChanged = record.taskIds ? await compareLinks(query, row.item_key, record, report) : false;
  return hasChanged || row.known === null ? [row.item_key] : [];
}

/** Removes tasks whose link was removed after the answer's revision: the answer may still contain them. */
async function withoutRemovedLinks(query: Scope, itemKey: ItemKey | null, taskIds: readonly string[], asOf: number) {
  if (itemKey === null) return taskIds;
  const rows = await allLinksOfItem(query, itemKey);
  const removed = new Set(
    rows.filter(({ known, revision }) => known === null && revision > asOf).map(({ task_id }) => task_id),
  );
  return taskIds.filter((taskId) => !removed.has(taskId));
}

export async function applyReportedRecords(
  query: Scope,
  records: readonly ListedRecord[],
  report: Report,
): Promise<RecordChanges> {
  const works = records.map((record) => (own: Scope) => applyReported(own, record, report));
  const changes = await runSequentially(query, works);
  return {
    reevaluate: changes.flatMap(({ reevaluate }) => reevaluate),
    edited: changes.flatMap(({ edited }) => edited),
  };
}

/** Applies a page of the list of all records. Changes that a sweep finds on it go behind all others. */
export async function applyRecordPage(query: Scope, answer: Answer, { now }: AnswerContext) {
  const { pullRequests } = recordPage.parse(answer.body);
  const sweep = await sweepOf(query, answer);
  const isSwept = sweep !== undefined;
  const { reevaluate } = await applyReportedRecords(query, pullRequests, { answer, now, isSwept });
  if (answer.page?.isEnd !== false) {
    await writeMeta(query, PULL_REQUESTS_READ, String(now));
    if (await takeReopened(query)) await evaluateRecordsFrom(query, '', now);
  }
  if (sweep) await advanceByRecords(query, sweep, answer, pullRequests.map(entityOf), now);
  return { reevaluate, isSweep: isSwept };
}

/**
 * Appends the next step of the comparison of all mirrored records with the workspace. Each step is a delivery of its
 * own.
 */
async function evaluateRecordsFrom(query: Scope, after: string, now: number): Promise<void> {
  await flushRows(query);
  const answer = { action: 'evaluate-records', entity: after, sentAt: now, body: null } as const;
  await appendAnswer(query, answer, `evaluate-records-${now}-${after}`, now);
}

/** Returns the items of the next step, to evaluate. */
export async function continueRecordEvaluation(
  query: Scope,
  { entity: after }: Answer,
  context: AnswerContext,
): Promise<ItemKey[]> {
  await flushRows(query);
  const { items, next } = await recordedItemsAfter(query, after);
  if (next !== undefined) await evaluateRecordsFrom(query, next, context.now);
  return items;
}
