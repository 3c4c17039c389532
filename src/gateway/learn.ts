import { JsonError, parseJson } from '../http/json.ts';
import type { Random } from '../lib/random.ts';
import { entity } from '../model/change.ts';
import { type Answer, appendAnswer } from '../store/answers.ts';
import type { Query } from '../store/database.ts';
import { wishReads } from '../store/list-reads.ts';
import type { RouteName } from '../workspace/contract.ts';
import type { Passage, PassedAnswer, PassedRequest } from './passage.ts';
import type { Matched } from './route-of.ts';

interface Moment {
  /** Epoch milliseconds. */
  readonly now: number;
  readonly random: Random;
}

/** What passes through is news of the workspace: it enters the inbox like any delivery, and only reconcile reads it. */
export async function learn(
  passage: Passage,
  passed: PassedRequest,
  answer: PassedAnswer,
  { now, random }: Moment,
): Promise<void> {
  if (answer.status < 200 || answer.status > 299) return;
  const matched = passage.routeOf(passed.method, passed.path);
  const news = matched && newsOf(matched, passed, answer);
  if (!news) return;
  await appendAnswer(passage.store.query, { ...news, sentAt: answer.sentAt }, random.uuid(), now);
  passage.inbox.ring();
}

interface News {
  readonly action: Answer['action'];
  readonly entity: string;
  readonly body: unknown;
}

const ACTIONS: Readonly<Partial<Record<RouteName, Answer['action']>>> = {
  listTasks: 'saw-tasks',
  getTask: 'saw-task',
  updateTask: 'saw-task',
  createBug: 'saw-task',
  createIdea: 'saw-task',
  listPullRequests: 'saw-records',
  createPullRequest: 'saw-record',
  updatePullRequest: 'saw-record',
  listWorkItems: 'read-links',
  addWorkItem: 'saw-link',
  removeWorkItem: 'saw-link-removed',
};

function newsOf({ route, ids }: Matched, passed: PassedRequest, answer: PassedAnswer): News | undefined {
  const action = ACTIONS[route];
  if (!action) return undefined;
  const taskId = ids['taskId'] ?? '';
  if (route === 'removeWorkItem') return { action, entity: '', body: { taskId, workItemId: ids['workItemId'] } };
  const body = readBody(answer.body);
  if (body === undefined) return undefined;
  if (route === 'listWorkItems') return { action, entity: entity.readLinks(taskId), body };
  if (route === 'listTasks' && isCompleteList(passed.query))
    return { action: 'read-tasks', entity: entity.readTasks, body };
  return { action, entity: '', body };
}

/** `all=true` and nothing that narrows it: what the list lacks does not exist. */
function isCompleteList(query: string): boolean {
  const given = [...new URLSearchParams(query)];
  return given.length === 1 && given[0]?.[0] === 'all' && given[0][1] === 'true';
}

function readBody(body: Buffer): unknown {
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}

/** The workspace's own list tells its id to the daemon's key, where nothing else has. */
export async function wishForId({ store, outbox }: Passage, now: number): Promise<void> {
  await store.commit((transaction) => wishReads(transaction, [entity.readTasks], now));
  outbox.ring();
}

/** A write without an answer is never repeated; what it may have changed is read again. */
export async function learnUnknown(passage: Passage, passed: PassedRequest, now: number): Promise<void> {
  const matched = passage.routeOf(passed.method, passed.path);
  if (!matched) return;
  await passage.store.commit((transaction) => wishFor(transaction, matched, now));
  passage.outbox.ring();
}

async function wishFor(query: Query, { route, ids }: Matched, now: number): Promise<void> {
  const taskId = ids['taskId'];
  if (route === 'addWorkItem' || route === 'removeWorkItem')
    return wishReads(query, [entity.readLinks(taskId ?? '')], now);
  if (route === 'createPullRequest' || route === 'updatePullRequest')
    return wishReads(query, [entity.readPullRequests], now);
  if (route === 'createBug' || route === 'createIdea' || route === 'updateTask') {
    return wishReads(query, [entity.readTasks], now);
  }
}
