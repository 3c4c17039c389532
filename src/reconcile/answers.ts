import { createHash } from 'node:crypto';
import { z } from 'zod';
import { entity, SETTLE_AFTER } from '../model/change.ts';
import { isAutomatic } from '../model/link.ts';
import type { Answer } from '../store/answers.ts';
import { releaseCreates } from '../store/creates.ts';
import type { Query } from '../store/database.ts';
import {
  blankEntity,
  type EntityRow,
  findEntity,
  json,
  linkedItems,
  linksOfItem,
  linksOfTask,
  saveEntity,
} from '../store/entities.ts';
import { itemsNamed } from '../store/item-names.ts';
import { existingItems } from '../store/items.ts';
import { PULL_REQUESTS_READ, TASKS_READ, wishTaskList } from '../store/list-reads.ts';
import { itemsNaming } from '../store/mentions.ts';
import { WORKSPACE_ID, writeMeta } from '../store/meta.ts';
import { dropDifference, findChange, removeChange, updateChange } from '../store/outbox.ts';
import { allTaskKeys, forgetTask, saveTask, taskOfSource, tasksByKeys } from '../store/tasks.ts';
import type { Moment } from './context.ts';
import type { KnownDocument } from './documents.ts';
import { nameOf, normalUrl } from './link-rules/names.ts';
import type { KnownLink } from './links.ts';

/**
 * What the workspace said becomes known. An answer was true at some moment between its request and its receipt, so it
 * never overrules what became known after the request had left.
 *
 * @returns the items to look at again
 */
export async function applyAnswer(query: Query, answer: Answer, moment: Moment): Promise<readonly string[]> {
  switch (answer.action) {
    case 'read-tasks':
      return applyTaskList(query, answer, moment);
    case 'read-pull-requests':
      return applyRecordPage(query, answer, moment);
    case 'read-links':
      return applyLinkList(query, answer);
    case 'record-pull-request':
      return applyRecord(query, answer, recordShape.parse(answer.body), moment);
    case 'add-link':
      return applyAddedLink(query, answer);
    case 'create-task':
      return applyCreatedTask(query, answer, moment);
    case 'saw-task': {
      const task = taskShape.parse(answer.body);
      await rememberWorkspace(query, task);
      return applyTasks(query, [task], moment);
    }
    case 'saw-tasks':
      return applyTasks(query, z.object({ tasks: z.array(taskShape) }).parse(answer.body).tasks, moment);
    case 'saw-record':
      return applyForeignRecord(query, answer, recordShape.parse(answer.body), moment);
    case 'saw-records':
      return applyRecords(query, answer, recordPage.parse(answer.body).pullRequests, moment);
    case 'saw-link':
      return applySeenLink(query, linkShape.parse(answer.body), moment);
    case 'saw-link-removed':
      return applySeenRemoval(query, answer);
    case 'read-document':
      return applyDocument(query, answer, moment);
    case 'attach-document':
      return [];
    case 'look-again':
      return [answer.entity];
    case 'remove-link': {
      const row = await findEntity(query, answer.entity);
      return row?.item_key ? [row.item_key] : [];
    }
  }
}

export const taskShape = z.looseObject({
  taskId: z.string(),
  key: z.string(),
  title: z.string(),
  status: z.string(),
  workspaceId: z.string().optional().catch(undefined),
  source: z.string().catch('api'),
  createdAt: z.string().catch(''),
  updatedAt: z.string().catch(''),
});

type ListedTask = z.infer<typeof taskShape>;

export const recordShape = z.looseObject({
  provider: z.string(),
  repoId: z.string(),
  identifier: z.string(),
  url: z.string().nullish(),
  updatedAt: z.string().nullish(),
  taskIds: z.array(z.string()).optional(),
});

type ListedRecord = z.infer<typeof recordShape>;

const recordPage = z.object({ pullRequests: z.array(recordShape), nextCursor: z.string().nullish() });

export const linkShape = z.looseObject({
  taskId: z.string().optional(),
  workItemId: z.string(),
  url: z.string(),
  externalId: z.string().nullish(),
});

/** Keeps tasks, and looks at the items that name them or that they were made for. */
async function applyTasks(query: Query, tasks: readonly ListedTask[], moment: Moment): Promise<string[]> {
  const changed = await keepTasks(query, tasks, moment);
  return itemsOfTasks(query, changed);
}

/**
 * Events and answers may overtake one another: what is older than what is held changes nothing.
 *
 * @returns those that are new or have another key or status than before
 */
async function keepTasks(query: Query, tasks: readonly ListedTask[], moment: Moment): Promise<ListedTask[]> {
  const present = await tasksByKeys(
    query,
    tasks.map(({ key }) => key),
  );
  const changed: ListedTask[] = [];
  for (const task of tasks) {
    const { taskId, key, title, status, source, createdAt, updatedAt } = task;
    const held = present.get(key);
    const isOutdated = held?.taskId === taskId && isOlder(updatedAt, held.updatedAt);
    await saveTask(query, isOutdated ? held : { taskId, key, title, status, source, createdAt, updatedAt }, moment.now);
    if (held?.taskId === taskId && (isOutdated || held.status === status)) continue;
    changed.push(task);
    if (source.includes(':')) await adopt(query, entity.task(source), taskId, moment);
  }
  return changed;
}

/** The items that name these tasks, that they were made for, or that are linked to them. */
async function itemsOfTasks(query: Query, tasks: readonly ListedTask[]): Promise<string[]> {
  const names = tasks.flatMap(({ taskId, key }) => [key, nameOf.taskId(taskId)]);
  const linked = await linkedItems(
    query,
    tasks.map(({ taskId }) => taskId),
  );
  const sources = await existingItems(
    query,
    tasks.map(({ source }) => source),
  );
  return [...(await itemsNaming(query, names)), ...linked, ...sources];
}

/**
 * A task whose source is an item's key was made for that item, by us or by whoever wrote so: then none is made any more. A
 * request that is on its way settles itself.
 */
async function adopt(query: Query, name: string, taskId: string, moment: Moment): Promise<void> {
  const row = await findEntity(query, name);
  if (!row || row.known !== null) return;
  const change = await findChange(query, name);
  if (change?.state === 'sending') return;
  await saveEntity(query, { ...row, known: row.desired ?? '{}', known_at: moment.now, remote_id: taskId });
  await removeChange(query, name);
}

async function applyCreatedTask(query: Query, answer: Answer, moment: Moment): Promise<string[]> {
  const task = taskShape.parse(answer.body);
  await rememberWorkspace(query, task);
  const row = await findEntity(query, answer.entity);
  if (row) await saveEntity(query, { ...row, remote_id: task.taskId });
  const again = await applyTasks(query, [task], moment);
  return row?.item_key ? [...again, row.item_key] : again;
}

/** By the workspace's own clock. What tells no time is never older. */
function isOlder(time: string | null | undefined, than: unknown): boolean {
  return typeof than === 'string' && Date.parse(time ?? '') < Date.parse(than);
}

/** Only answers to the daemon's own key, or to callers who are proved to be of this workspace, come here. */
async function rememberWorkspace(query: Query, task: ListedTask | undefined): Promise<void> {
  if (task?.workspaceId) await writeMeta(query, WORKSPACE_ID, task.workspaceId);
}

/** One complete list: what it lacks is gone. It is the oracle for the key set and for creates of unknown fate. */
async function applyTaskList(query: Query, answer: Answer, moment: Moment): Promise<string[]> {
  const { tasks } = z.object({ tasks: z.array(taskShape) }).parse(answer.body);
  const before = await allTaskKeys(query);
  const present = new Set(tasks.map(({ taskId }) => taskId));
  for (const taskId of before.keys()) {
    // One that was seen after the list was asked for may be younger than the list.
    if (!present.has(taskId)) await forgetTask(query, taskId, answer.sentAt);
  }
  const changed = await keepTasks(query, tasks, moment);
  await settleCreates(query, answer.sentAt, moment);
  await releaseCreates(query, answer.sentAt);
  await writeMeta(query, TASKS_READ, String(moment.now));
  await rememberWorkspace(query, tasks[0]);
  return itemsOfTasks(query, changed);
}

/**
 * Creates of unknown fate, all settled by one list: present → known, and of several the oldest; absent → sent again. For a
 * create that was sent too shortly before the list was asked for, absence proves nothing: another list is wished.
 */
async function settleCreates(query: Query, sentAt: number, moment: Moment): Promise<void> {
  const unknown = await query
    .selectFrom('outbox')
    .selectAll()
    .where('kind', '=', 'task')
    .where('state', '=', 'unknown')
    .execute();
  for (const { entity: name, not_before: provableFrom } of unknown) {
    const row = await findEntity(query, name);
    const made = row?.item_key && (await taskOfSource(query, row.item_key));
    if (made) await adopt(query, name, made.taskId, moment);
    else if (provableFrom <= sentAt)
      await updateChange(query, name, { state: 'pending', not_before: 0, sent: null, sent_at: null });
    else await wishLaterList(query, name, provableFrom, moment);
  }
}

async function wishLaterList(query: Query, name: string, provableFrom: number, moment: Moment): Promise<void> {
  const { now, usedShare } = moment;
  // Further ahead it can only be where the clock was set back meanwhile.
  const notBefore = Math.min(provableFrom, now + SETTLE_AFTER);
  await updateChange(query, name, { not_before: notBefore });
  await wishTaskList(query, { now, usedShare, lane: 'triage', notBefore });
}

async function applyRecordPage(query: Query, answer: Answer, moment: Moment): Promise<string[]> {
  const page = recordPage.parse(answer.body);
  const again = await applyRecords(query, answer, page.pullRequests, moment);
  if (!page.nextCursor) await writeMeta(query, PULL_REQUESTS_READ, String(moment.now));
  return again;
}

async function applyRecords(
  query: Query,
  answer: Answer,
  records: readonly ListedRecord[],
  moment: Moment,
): Promise<string[]> {
  const again: string[] = [];
  for (const record of records) again.push(...(await applyRecord(query, answer, record, moment)));
  return again;
}

async function applyRecord(query: Query, answer: Answer, record: ListedRecord, moment: Moment): Promise<string[]> {
  const name = entity.pullRequest(record.provider, record.repoId, record.identifier);
  const row = (await findEntity(query, name)) ?? blankEntity(name, 'pull_request');
  const known = json(row.known);
  // What we wrote is known as we wrote it: a server's own spelling of it must not look like a difference.
  const own = known ?? record;
  const next = { ...own, taskIds: record.taskIds ?? own['taskIds'], ...marksOf(record) };
  await saveEntity(query, { ...row, known: JSON.stringify(next), known_at: row.known_at ?? moment.now });
  if (row.item_key === null) return [];
  if (record.taskIds) await compareLinks(query, row.item_key, record, answer.sentAt, moment);
  return known === undefined ? [row.item_key] : [];
}

/**
 * Beside the fields of a known record: how the server spells it, so that the echo of our own write is recognised; and
 * the time of its last change by the server's clock, so that an echo of an earlier one is too.
 */
const SPELLING = 'spelling';
const CHANGED_AT = 'changedAt';

function marksOf(record: ListedRecord) {
  return { [SPELLING]: spellingOf(record), ...(record.updatedAt ? { [CHANGED_AT]: record.updatedAt } : {}) };
}

function spellingOf({ taskIds: _taskIds, updatedAt: _updatedAt, ...fields }: ListedRecord): string {
  const sorted = Object.entries(fields).sort(([left], [right]) => (left < right ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted)).digest('base64');
}

/**
 * Somebody else's write, or the echo of ours. Theirs becomes known as it is; where it differs from what the provider
 * says, the provider is right and the record is written again. Content decides which it is, never time.
 */
async function applyForeignRecord(
  query: Query,
  answer: Answer,
  record: ListedRecord,
  moment: Moment,
): Promise<string[]> {
  const name = entity.pullRequest(record.provider, record.repoId, record.identifier);
  const row = await findEntity(query, name);
  const { [SPELLING]: spelling, [CHANGED_AT]: changedAt } = json(row?.known ?? null) ?? {};
  if (isOlder(record.updatedAt, changedAt)) return [];
  const isEcho = spelling === undefined || spelling === spellingOf(record);
  if (!row?.known || isEcho) return applyRecord(query, answer, record, moment);
  // Our own request is on its way: its answer tells what came of both.
  if ((await findChange(query, name))?.state === 'sending') return [];
  const taskIds = record.taskIds ?? json(row.known)?.['taskIds'];
  const known = JSON.stringify({ ...record, taskIds, ...marksOf(record) });
  await saveEntity(query, { ...row, known, known_at: moment.now });
  if (row.item_key === null) return [];
  if (record.taskIds) await compareLinks(query, row.item_key, record, answer.sentAt, moment);
  return [row.item_key];
}

/** A record names the tasks that have a link with its URL: so a person's removals and additions are seen for nothing. */
async function compareLinks(
  query: Query,
  itemKey: string,
  record: ListedRecord,
  sentAt: number,
  moment: Moment,
): Promise<void> {
  for (const link of await linksOfItem(query, itemKey)) {
    const exists = record.taskIds?.includes(link.task_id as string) ?? false;
    // After a rename at the provider the record has another URL than the link: then it tells nothing of it.
    const isTold = (json<KnownLink>(link.known)?.url ?? record.url) === record.url;
    if (!isTold) continue;
    if (link.known !== null && !exists) await removedByHand(query, link, sentAt);
    else if (link.known === null && exists) await foundThere(query, link, sentAt, moment.now);
  }
}

/** A link of ours that vanished without our doing was removed by a person, and stays removed. */
async function removedByHand(query: Query, link: EntityRow, sentAt: number): Promise<void> {
  if ((link.known_at ?? 0) >= sentAt) return;
  if (await findChange(query, link.entity)) return;
  const hand = link.desired === null ? null : 'removed';
  await saveEntity(query, { ...link, known: null, remote_id: null, hand });
}

/** It stands there already: whoever made it, nothing need be sent. */
async function foundThere(query: Query, link: EntityRow, sentAt: number, now: number): Promise<void> {
  if ((link.known_at ?? 0) >= sentAt) return;
  const change = await findChange(query, link.entity);
  if (change && change.state !== 'pending') return;
  const url = json<KnownLink>(link.desired)?.url;
  await saveEntity(query, { ...link, known: JSON.stringify({ url }), known_at: now, hand: null });
  await dropDifference(query, link.entity);
}

/** The server answers with the link that exists for that URL, which a person may have made before us. */
async function applyAddedLink(query: Query, answer: Answer): Promise<string[]> {
  const link = linkShape.parse(answer.body);
  const row = await findEntity(query, answer.entity);
  if (!row) return [];
  await saveEntity(query, { ...row, ...whoMade(link) });
  return row.item_key ? [row.item_key] : [];
}

function whoMade(link: z.infer<typeof linkShape>): Pick<EntityRow, 'known' | 'remote_id' | 'hand'> {
  const externalId = link.externalId ?? null;
  return {
    known: JSON.stringify({ url: link.url, externalId } satisfies KnownLink),
    remote_id: link.workItemId,
    hand: isAutomatic(externalId) ? null : 'manual',
  };
}

/** All links of one task: who made them, and under which id. */
async function applyLinkList(query: Query, answer: Answer): Promise<string[]> {
  const { workItems } = z.object({ workItems: z.array(linkShape) }).parse(answer.body);
  const taskId = answer.entity.slice(entity.readLinks('').length);
  const again: string[] = [];
  for (const row of await linksOfTask(query, taskId)) {
    if (row.known === null) continue;
    const url = json<KnownLink>(row.known)?.url;
    const found = workItems.find((link) => link.workItemId === row.remote_id || link.url === url);
    if (found) await saveEntity(query, { ...row, ...whoMade(found) });
    else await removedByHand(query, row, answer.sentAt);
    if (row.item_key) again.push(row.item_key);
  }
  return again;
}

const documentShape = z.looseObject({ taskId: z.string().nullish() }).nullable();

/** Whether a document may be attached: see `documents.ts`. */
async function applyDocument(query: Query, answer: Answer, moment: Moment): Promise<string[]> {
  const body = documentShape.parse(answer.body);
  const row = await findEntity(query, entity.document(answer.entity.slice(entity.readDocument('').length)));
  if (!row) return [];
  const known = { taskId: body?.taskId ?? null, isMissing: body === null } satisfies KnownDocument;
  await saveEntity(query, { ...row, known: JSON.stringify(known), known_at: moment.now });
  return row.item_key ? [row.item_key] : [];
}

/** A link that somebody made: by hand, or we, and this is the echo. */
async function applySeenLink(query: Query, link: z.infer<typeof linkShape>, moment: Moment): Promise<string[]> {
  const again: string[] = [];
  for (const row of await linksOfTask(query, link.taskId ?? '')) {
    const url = json<KnownLink>(row.known ?? row.desired)?.url;
    if (row.remote_id !== link.workItemId && url !== link.url) continue;
    const change = await findChange(query, row.entity);
    if (change && change.state !== 'pending') continue;
    await saveEntity(query, { ...row, ...whoMade(link), known_at: moment.now });
    if (row.item_key) again.push(row.item_key);
  }
  return [...again, ...(await keepForeign(query, link, moment))];
}

/** A person linked an item of a tracker to a task: then that task stands for the item. */
async function keepForeign(query: Query, link: z.infer<typeof linkShape>, moment: Moment): Promise<string[]> {
  const url = normalUrl(link.url);
  if (url === undefined || link.taskId === undefined || isAutomatic(link.externalId)) return [];
  const again: string[] = [];
  for (const { itemKey } of await itemsNamed(query, [nameOf.url(url)])) {
    const name = entity.link(itemKey, link.taskId);
    if (await findEntity(query, name)) continue;
    const ids = { item_key: itemKey, task_id: link.taskId, known_at: moment.now };
    await saveEntity(query, { ...blankEntity(name, 'link', ids), ...whoMade(link) });
    again.push(itemKey);
  }
  return again;
}

async function applySeenRemoval(query: Query, answer: Answer): Promise<string[]> {
  const { taskId, workItemId } = z.object({ taskId: z.string(), workItemId: z.string() }).parse(answer.body);
  const again: string[] = [];
  for (const row of await linksOfTask(query, taskId)) {
    if (row.known === null || row.remote_id !== workItemId) continue;
    await removedByHand(query, row, answer.sentAt);
    if (row.item_key) again.push(row.item_key);
  }
  return again;
}
