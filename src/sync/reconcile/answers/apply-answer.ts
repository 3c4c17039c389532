import { ZodError } from 'zod';
import { entity } from '../../../model/change.ts';
import { SyncError } from '../../../model/errors.ts';
import type { ItemKey } from '../../../model/item.ts';
import { findEntities, findEntity, linksOfTask } from '../../../store/changes/entities.ts';
import { findChanges } from '../../../store/changes/outbox-rows.ts';
import { WORKSPACE_ID, writeMeta } from '../../../store/meta.ts';
import { existingTasks, forgetTasks } from '../../../store/tasks/stored-tasks.ts';
import { readRecordsRoute } from '../../../store/workspace/server-capabilities.ts';
import {
  type Answer,
  enqueueReads,
  onTaskListApplied,
  requestTaskList,
  requestTaskReads,
} from '../../../store/workspace/workspace-reads.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { AnswerContext } from '../context.ts';
import { applyDocument, applyListedDocuments } from '../document-attachments.ts';
import { applyAddedLink, applyLinkList, applyReportedLink, applyReportedRemoval } from './link-answers.ts';
import { applyOwnRecord, applyRecordPage, applyReportedRecords, continueRecordEvaluation } from './record-answers.ts';
import { namedResources, recordPage, recordShape, taskList, taskShape } from './shapes.ts';
import { continueComparison, type SweepResult } from './sweep-answers.ts';
import { applyCreatedTask, applyTaskList, applyTasks, itemsOfTasks, saveWorkspaceId } from './task-answers.ts';

/** The effects of an answer besides the known state. */
export interface AppliedAnswer extends SweepResult {
  /** The sweep found the items to evaluate: their changes go behind all others. */
  readonly isSweep?: boolean;
  /**
   * Items whose record was edited in the workspace, and perhaps at the provider first. The provider is right, so it
   * must be read.
   */
  readonly edited?: readonly ItemKey[];
  /** Tasks to evaluate, also if no item is linked to them any more. */
  readonly tasks?: readonly string[];
}

/**
 * Updates the known state by an answer of the workspace. The answer was true at some time between its request and its
 * receipt, so it never overrides a state that became known after the request was sent.
 *
 * Must have no effect besides rows and its result: a prefetch runs it once more before, discards both, and ignores its
 * errors (`prefetch` of the unit of work).
 *
 * Throws `answer_malformed` if an identifying field is missing or invalid.
 */
export async function applyAnswer(query: Scope, answer: Answer, context: AnswerContext): Promise<AppliedAnswer> {
  try {
    return await applyParsed(query, answer, context);
  } catch (error) {
    if (!(error instanceof ZodError)) throw error;
    const places = error.issues.map(({ path }) => path.join('.')).join(', ');
    throw new SyncError(
      'answer_malformed',
      `fields of the answer to ${answer.action} are missing or invalid: ${places}`,
    );
  }
}

async function applyParsed(query: Scope, answer: Answer, context: AnswerContext): Promise<AppliedAnswer> {
  if (answer.workspaceId !== undefined) await writeMeta(query, WORKSPACE_ID, answer.workspaceId);
  // On a server without the route for records, pull requests that other clients see there are not our records.
  if (RECORD_ANSWERS.has(answer.action) && (await readRecordsRoute(query)).state !== 'open') return { reevaluate: [] };
  const applied = await ANSWERS[answer.action](query, answer, context);
  if ('reevaluate' in applied) return applied;
  const task = taskOfUpdate(answer.entity);
  return { reevaluate: applied, ...(task !== undefined && { tasks: [task] }) };
}

const RECORD_ANSWERS: ReadonlySet<Answer['action']> = new Set([
  'saw-record',
  'saw-records',
  'saw-record-edit',
  'read-records',
]);

/** Applies an answer. Returns its effects, or the items to evaluate if it has no other effect. */
type Apply = (query: Scope, answer: Answer, context: AnswerContext) => Promise<AppliedAnswer | readonly ItemKey[]>;

const applyRecord = (query: Scope, answer: Answer, { now }: AnswerContext) =>
  applyReportedRecords(query, [recordShape.parse(answer.body)], { answer, now, isSwept: false });

const applyRecords: Apply = async (query, answer, { now }) => {
  const { pullRequests } = recordPage.parse(answer.body);
  return (await applyReportedRecords(query, pullRequests, { answer, now, isSwept: false })).reevaluate;
};

const ANSWERS: Readonly<Record<Answer['action'], Apply>> = {
  async 'read-tasks'(query, answer, context) {
    const applied = await applyTaskList(query, answer, context);
    const { began = answer.sentAt, isEnd = true } = answer.page ?? {};
    if (isEnd) await onTaskListApplied(query, began, context.now);
    return applied;
  },
  'read-pull-requests': applyRecordPage,
  'compare-records': async (query, answer, context) => ({
    ...(await continueComparison(query, answer, context)),
    isSweep: true,
  }),
  'saw-record-edit': applyRecord,
  'saw-record': async (query, answer, context) => (await applyRecord(query, answer, context)).reevaluate,
  'saw-records': applyRecords,
  'read-records': applyRecords,
  'read-links': applyLinkList,
  'record-pull-request': applyOwnRecord,
  'add-link': applyAddedLink,
  'create-task': applyCreatedTask,
  named: requestNamedResources,
  async 'read-task'(query, answer, context) {
    if (answer.body !== null)
      return (taskOfUpdate(answer.entity) === undefined ? applyTask : applyUpdatedTask)(query, answer, context);
    await requestTaskList(query, context.now);
    return [];
  },
  'update-task': applyUpdatedTask,
  'saw-task': applyTask,
  'saw-tasks': (query, answer, context) =>
    applyTasks(query, taskList.parse(answer.body).tasks, { ...context, order: answer }),
  'saw-link': applyReportedLink,
  'saw-link-removed': applyReportedRemoval,
  'read-document': applyDocument,
  'saw-documents': applyListedDocuments,
  'look-again': async (_query, { entity: name }) => (taskOfUpdate(name) === undefined ? [name] : []),
  'evaluate-records': continueRecordEvaluation,
  async 'remove-link'(query, answer) {
    const row = await findEntity(query, answer.entity);
    return row?.item_key ? [row.item_key] : [];
  },
  'attach-document': async () => [],
};

/** Returns the id of the task if the name is that of a task update. No evaluation of the task has an effect before the answer. */
function taskOfUpdate(name: string): string | undefined {
  return name.startsWith(UPDATE) ? name.slice(UPDATE.length) : undefined;
}

const UPDATE = entity.taskUpdate('');

/**
 * Caches an updated task, or the task that was read instead of an update. Returns all its items, because the status was cached when
 * the update was settled and no longer differs. Without a body the task is gone, or the answer did not contain it and it is read.
 */
async function applyUpdatedTask(query: Scope, answer: Answer, context: AnswerContext): Promise<readonly ItemKey[]> {
  const taskId = answer.entity.slice(UPDATE.length);
  if (answer.body !== null && answer.body !== undefined) {
    const changed = await applyTask(query, answer, context);
    return [...new Set([...changed, ...(await itemsOfTasks(query, [taskShape.parse(answer.body)]))])];
  }
  if (answer.status === undefined) await forgetTasks(query, [taskId], answer.sentAt);
  else await enqueueReads(query, [entity.readTask(taskId)], context.now);
  return [];
}

async function applyTask(query: Scope, answer: Answer, context: AnswerContext): Promise<ItemKey[]> {
  const task = taskShape.parse(answer.body);
  await saveWorkspaceId(query, task);
  return applyTasks(query, [task], { ...context, order: answer });
}

/** Requests reads of the resources that an event names. Reads of links and documents go behind all other requests. */
async function requestNamedResources(query: Scope, answer: Answer, context: AnswerContext): Promise<ItemKey[]> {
  const { taskIds, isNew, linkTaskIds, workItemId, documentIds } = namedResources.parse(answer.body);
  const { now } = context;
  const known = isNew ? await existingTasks(query, taskIds) : new Set<string>();
  const changed = taskIds.filter((taskId) => !known.has(taskId));
  await requestTaskReads(query, changed, context);
  const reads: string[] = [];
  for (const taskId of linkTaskIds) {
    if (!(await isKnownLink(query, taskId, workItemId))) reads.push(entity.readLinks(taskId));
  }
  // Only documents that an item names are stored.
  for (const row of await findEntities(query, documentIds.map(entity.document)))
    reads.push(entity.readDocument(row.entity.slice(entity.document('').length)));
  // Loads all of them by one statement.
  await findChanges(query, reads);
  await enqueueReads(query, reads, now, 'backfill');
  return [];
}

/** Recognizes an event about a link that worksync added itself, or has read since. */
async function isKnownLink(query: Scope, taskId: string, workItemId: string | undefined): Promise<boolean> {
  if (workItemId === undefined) return false;
  const links = await linksOfTask(query, taskId);
  return links.some((link) => link.known !== null && link.remote_id === workItemId);
}
