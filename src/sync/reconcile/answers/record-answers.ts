import { createHash } from 'node:crypto';
import { entity } from '../../../model/change.ts';
import {
  allLinksOfItem,
  blankEntity,
  type EntityRow,
  findEntity,
  json,
  recordedItemsAfter,
  saveEntity,
} from '../../../store/entities.ts';
import { writeMeta } from '../../../store/meta.ts';
import { findChange } from '../../../store/outbox-rows.ts';
import { takeReopened } from '../../../store/server-capabilities.ts';
import { flushRows, runSequentially } from '../../../store/unit-of-work/unit-of-work.ts';
import { type Answer, appendAnswer } from '../../../store/workspace-answers.ts';
import { PULL_REQUESTS_READ } from '../../../store/workspace-reads.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { EvaluationContext } from '../context.ts';
import { differingFields } from '../diff.ts';
import { compareLinks } from './link-answers.ts';
import { isOlder, type ListedRecord, recordPage } from './shapes.ts';
import { onRecordPage, sweepOf } from './sweep-answers.ts';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Beside the fields of a known record: how the server spells it, so that the echo of our own write is recognised; and
 * the time of its last change by the server's clock, so that an echo of an earlier one is too.
 */
const SPELLING = 'spelling';
const CHANGED_AT = 'changedAt';

function marksOf(record: ListedRecord): Fields {
  return { [SPELLING]: spellingOf(record), ...(record.updatedAt ? { [CHANGED_AT]: record.updatedAt } : {}) };
}

function spellingOf({ taskIds: _taskIds, updatedAt: _updatedAt, ...fields }: ListedRecord): string {
  const sorted = Object.entries(fields).sort(([left], [right]) => (left < right ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted)).digest('base64');
}

function nameOf({ provider, repoId, identifier }: ListedRecord): string {
  return entity.pullRequest(provider, repoId, identifier);
}

/** Our own write is known as we wrote it: a server's own spelling must not look like a difference. */
export async function applyOwnRecord(
  query: Scope,
  answer: Answer,
  record: ListedRecord,
  moment: EvaluationContext,
): Promise<string[]> {
  const name = nameOf(record);
  const row = (await findEntity(query, name)) ?? blankEntity(name, 'pull_request');
  const { sentAt, asOf = 0, receivedRevision } = answer;
  const sight = { record, sentAt, asOf, receivedRevision, moment, isSwept: false };
  return keep(query, { row, known: json(row.known) ?? record }, sight);
}

/** The items to look at again, and those among them whose record somebody else has changed. */
interface Seen {
  readonly again: readonly string[];
  readonly edited: readonly string[];
}

const NOTHING: Seen = { again: [], edited: [] };

interface Sight {
  readonly record: ListedRecord;
  /** When the answer about it was requested, epoch milliseconds. */
  readonly sentAt: number;
  /** The revision that the answer is true of, for what it says about links. */
  readonly asOf: number;
  readonly receivedRevision: number | undefined;
  readonly moment: EvaluationContext;
  /** Whether a round of the sweep reports what it finds. */
  readonly isSwept: boolean;
}

/**
 * A record as it stands in the workspace: the echo of our own write, or somebody else's. Theirs becomes known as it is; where
 * it differs from what the provider says, the provider is right and the record is written again. Content decides which it is,
 * never time; but what was asked for before our last write says nothing.
 */
async function see(query: Scope, sight: Sight): Promise<Seen> {
  const { record, sentAt, moment } = sight;
  const name = nameOf(record);
  const row = (await findEntity(query, name)) ?? blankEntity(name, 'pull_request');
  const known = json(row.known);
  if (known === undefined) return { again: await keep(query, { row, known: record }, sight), edited: [] };
  if (isOlder(record.updatedAt, known[CHANGED_AT])) return NOTHING;
  const isOutdated = (row.known_at ?? 0) > sentAt;
  if (isEcho(known, record)) {
    if (isOutdated && !known[SPELLING]) return NOTHING;
    return { again: await keep(query, { row, known }, sight), edited: [] };
  }
  if (isOutdated || (await isUnderWay(query, name))) return NOTHING;
  const { taskIds = known['taskIds'] } = record;
  await keep(query, { row: { ...row, known_at: moment.now }, known: { ...record, taskIds } }, sight);
  const again = row.item_key === null ? [] : [row.item_key];
  return { again, edited: again };
}

function isEcho(known: Fields, record: ListedRecord): boolean {
  const { [SPELLING]: spelling, [CHANGED_AT]: _, taskIds: __, ...fields } = known;
  // Written, and its answer not processed yet.
  if (spelling === undefined) return differingFields(fields, record).length === 0;
  return spelling === spellingOf(record);
}

/** Our own request is in flight, or its outcome is unknown: its answer settles both. */
async function isUnderWay(query: Scope, name: string): Promise<boolean> {
  const change = await findChange(query, name);
  return change?.sent != null;
}

async function keep(
  query: Scope,
  { row, known }: { readonly row: EntityRow; readonly known: Fields },
  { record, asOf, receivedRevision, moment, isSwept }: Sight,
): Promise<string[]> {
  const taskIds = record.taskIds && (await stillLinked(query, row.item_key, record.taskIds, asOf));
  const next = JSON.stringify({ ...known, taskIds: taskIds ?? known['taskIds'], ...marksOf(record) });
  if (next !== row.known) await saveEntity(query, { ...row, known: next, known_at: row.known_at ?? moment.now });
  if (row.item_key === null) return [];
  const sight = { asOf, receivedRevision, now: moment.now, isSwept };
  if (record.taskIds) await compareLinks(query, row.item_key, record, sight);
  return row.known === null ? [row.item_key] : [];
}

/** An answer that was on its way while a link was removed may still name it. */
async function stillLinked(query: Scope, itemKey: string | null, taskIds: readonly string[], asOf: number) {
  if (itemKey === null) return taskIds;
  const rows = await allLinksOfItem(query, itemKey);
  const removed = new Set(
    rows.filter(({ known, revision }) => known === null && revision > asOf).map(({ task_id }) => task_id),
  );
  return taskIds.filter((taskId) => !removed.has(taskId));
}

export async function applySeenRecords(
  query: Scope,
  { sentAt, asOf = 0, receivedRevision }: Answer,
  records: readonly ListedRecord[],
  moment: EvaluationContext,
  isSwept = false,
): Promise<Seen> {
  const answered = { sentAt, asOf, receivedRevision };
  const looks = records.map((record) => (own: Scope) => see(own, { ...answered, record, moment, isSwept }));
  const seen = await runSequentially(query, looks);
  return { again: seen.flatMap(({ again }) => again), edited: seen.flatMap(({ edited }) => edited) };
}

/** A page of the list of all. What a round of the sweep finds on it goes behind everything else. */
export async function applyRecordPage(query: Scope, answer: Answer, moment: EvaluationContext): Promise<PageTaken> {
  const { pullRequests } = recordPage.parse(answer.body);
  const { page = WHOLE } = answer;
  const sweep = await sweepOf(query, answer);
  const { again } = await applySeenRecords(query, answer, pullRequests, moment, sweep !== undefined);
  if (page.isEnd) await writeMeta(query, PULL_REQUESTS_READ, String(moment.now));
  if (page.isEnd && (await takeReopened(query))) await evaluateRecordsFrom(query, '', moment.now);
  if (sweep) await onRecordPage(query, sweep, answer, { listed: pullRequests.map(nameOf), ...page }, moment);
  return { again, isSweep: sweep !== undefined };
}

const WHOLE = { isEnd: true, isComplete: true };

/** What the mirror holds is compared with the workspace again, some records at a time, each part a delivery of its own. */
async function evaluateRecordsFrom(query: Scope, after: string, now: number): Promise<void> {
  await flushRows(query);
  const answer = { action: 'evaluate-records', entity: after, sentAt: now, body: null } as const;
  await appendAnswer(query, answer, `evaluate-records-${now}-${after}`, now);
}

/** The next part of the mirror. @returns the items to evaluate */
export async function onEvaluateRecords(
  query: Scope,
  { entity: after }: Answer,
  moment: EvaluationContext,
): Promise<string[]> {
  await flushRows(query);
  const { items, next } = await recordedItemsAfter(query, after);
  if (next !== undefined) await evaluateRecordsFrom(query, next, moment.now);
  return items;
}

interface PageTaken {
  readonly again: readonly string[];
  readonly isSweep: boolean;
}
