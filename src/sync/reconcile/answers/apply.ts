import { ZodError } from 'zod';
import { SyncError } from '../../../model/errors/sync-error.ts';
import { findEntity } from '../../../store/entities.ts';
import { WORKSPACE_ID, writeMeta } from '../../../store/meta.ts';
import { readRecordsRoute } from '../../../store/server-capabilities.ts';
import type { Answer } from '../../../store/workspace-answers.ts';
import { onTaskListApplied, requestTaskList } from '../../../store/workspace-reads.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { EvaluationContext } from '../context.ts';
import { applyDocument, applySeenDocuments } from './document-answers.ts';
import { applyAddedLink, applyLinkList, applySeenLink, applySeenRemoval } from './link-answers.ts';
import { applyNamed } from './named-answers.ts';
import { applyOwnRecord, applyRecordPage, applySeenRecords, onEvaluateRecords } from './record-answers.ts';
import { linkShape, recordPage, recordShape, taskList, taskShape } from './shapes.ts';
import { onCompare, type Swept } from './sweep-answers.ts';
import { applyCreatedTask, applyTaskList, applyTasks, rememberWorkspace } from './task-answers.ts';

/** The effects of an answer, besides the known state. */
export interface Taken extends Swept {
  /** The sweep found the items to re-evaluate: nobody waits for them. */
  readonly isSweep?: boolean;
  /**
   * Items that somebody edited here, and perhaps at the provider first: worksync must ask the provider, which is right about
   * them.
   */
  readonly edited?: readonly string[];
}

/**
 * Makes an answer of the workspace known. It was true at some moment between its request and its receipt, so it never overrules
 * what became known after the request had left.
 */
export async function applyAnswer(query: Scope, answer: Answer, moment: EvaluationContext): Promise<Taken> {
  try {
    return await applySound(query, answer, moment);
  } catch (error) {
    if (!(error instanceof ZodError)) throw error;
    const places = error.issues.map(({ path }) => path.join('.')).join(', ');
    throw new SyncError(
      'answer_malformed',
      `fields of the answer to ${answer.action} are missing or invalid: ${places}`,
    );
  }
}

async function applySound(query: Scope, answer: Answer, moment: EvaluationContext): Promise<Taken> {
  if (answer.workspaceId !== undefined) await writeMeta(query, WORKSPACE_ID, answer.workspaceId);
  // On a server without the route for records, a pull request that others see there is no record of ours.
  if (RECORDS.has(answer.action) && (await readRecordsRoute(query)).state !== 'open') return { again: [] };
  switch (answer.action) {
    case 'read-tasks': {
      const taken = await applyTaskList(query, answer, moment);
      const { began = answer.sentAt, isEnd = true } = answer.page ?? {};
      if (isEnd) await onTaskListApplied(query, began, moment.now);
      return taken;
    }
    case 'read-pull-requests':
      return applyRecordPage(query, answer, moment);
    case 'compare-records':
      return { ...(await onCompare(query, answer, moment)), isSweep: true };
    case 'saw-record-edit':
      return applySeenRecords(query, answer, [recordShape.parse(answer.body)], moment);
    default:
      return { again: await apply(query, answer as Plain, moment) };
  }
}

const RECORDS: ReadonlySet<Answer['action']> = new Set([
  'saw-record',
  'saw-records',
  'saw-record-edit',
  'read-records',
]);

type Plain = Answer & {
  readonly action: Exclude<
    Answer['action'],
    'read-tasks' | 'read-pull-requests' | 'compare-records' | 'saw-record-edit'
  >;
};

async function apply(query: Scope, answer: Plain, moment: EvaluationContext): Promise<readonly string[]> {
  switch (answer.action) {
    case 'saw-record':
      return (await applySeenRecords(query, answer, [recordShape.parse(answer.body)], moment)).again;
    case 'saw-records':
    case 'read-records':
      return (await applySeenRecords(query, answer, recordPage.parse(answer.body).pullRequests, moment)).again;
    case 'read-links':
      return applyLinkList(query, answer, moment);
    case 'record-pull-request':
      return applyOwnRecord(query, answer, recordShape.parse(answer.body), moment);
    case 'add-link':
      return applyAddedLink(query, answer);
    case 'create-task':
      return applyCreatedTask(query, answer, moment);
    case 'named':
      await applyNamed(query, answer, moment);
      return [];
    case 'read-task':
      if (answer.body === null) {
        await requestTaskList(query, moment.now);
        return [];
      }
      return applyTask(query, answer, moment);
    case 'saw-task':
      return applyTask(query, answer, moment);
    case 'saw-tasks':
      return applyTasks(query, taskList.parse(answer.body).tasks, moment);
    case 'saw-link':
      return applySeenLink(query, linkShape.parse(answer.body), answer, moment);
    case 'saw-link-removed':
      return applySeenRemoval(query, answer, moment);
    case 'read-document':
      return applyDocument(query, answer, moment);
    case 'saw-documents':
      return applySeenDocuments(query, answer, moment);
    case 'look-again':
      return [answer.entity];
    case 'evaluate-records':
      return onEvaluateRecords(query, answer, moment);
    case 'remove-link': {
      const row = await findEntity(query, answer.entity);
      return row?.item_key ? [row.item_key] : [];
    }
    case 'attach-document':
      return [];
  }
}

async function applyTask(query: Scope, answer: Answer, moment: EvaluationContext): Promise<string[]> {
  const task = taskShape.parse(answer.body);
  await rememberWorkspace(query, task);
  return applyTasks(query, [task], moment);
}
