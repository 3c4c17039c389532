import { entity } from '../model/change.ts';
import { mayBeCut } from '../model/delivery.ts';
import { asSyncError, type SyncError, wasSent } from '../model/errors.ts';
import { isSafe, isSuccess } from '../platform/http/http-client.ts';
import { JsonError, parseJson } from '../platform/http/parse-json.ts';
import { LARGE } from '../platform/lib/concurrency.ts';
import { findEntities, findEntity } from '../store/changes/entities.ts';
import type { StoreContext, WakeSignals } from '../store/store-context.ts';
import { readRecordsRoute } from '../store/workspace/server-capabilities.ts';
import { type Answer, appendAnswer, enqueueReads } from '../store/workspace/workspace-reads.ts';
import { json, type Scope } from '../store/workspace-scope.ts';
import { type ApiOverrides, ROUTES, type Route, type RouteName } from './contract.ts';
import { type ReadLarge, readBody } from './typed-client.ts';

/** A request of a command, or of a caller of the gateway, that worksync sent to the workspace. */
export interface Asked {
  readonly method: string;
  /** Below the base address; starts with `/`. */
  readonly path: string;
  /** Encoded, without `?`; empty if there is none. */
  readonly query: string;
  /** The sent body: bytes, or a plain JSON value. */
  readonly body?: unknown;
}

export interface Heard {
  readonly status: number;
  readonly body: Buffer;
  /** The time when the request was sent, epoch milliseconds. */
  readonly sentAt: number;
  /** The revision as of which the answer is true; see `currentRevision` in `store/meta.ts`. */
  readonly asOf: number;
}

/**
 * The one path for answers of the workspace to commands and the gateway. An answer enters the inbox like any delivery, as the
 * outbox's own answers and the workspace's webhooks do, and only reconcile reads it. If the outcome of a write is unknown,
 * worksync reads the resource that it may have changed. Never rejects: the caller gets the answer even if it cannot be stored.
 */
export type ResponseCapture = ReturnType<typeof createResponseCapture>;

export function createResponseCapture(context: StoreContext & WakeSignals, routeOf: RouteOf, readLarge: ReadLarge) {
  const { store, clock } = context;

  async function readAgain(asked: Asked): Promise<void> {
    const matched = isSafe(asked.method) ? undefined : routeOf(asked.method, asked.path);
    if (!matched) return;
    const now = clock.now();
    const isWished = await store.commit((transaction) =>
      enqueueReadsAfter(transaction, matched, contentOf(asked.body), now),
    );
    if (isWished) context.outbox.notify();
  }

  async function take(asked: Asked, { body, sentAt, asOf }: Heard): Promise<void> {
    const matched = routeOf(asked.method, asked.path);
    if (!matched) return;
    const content = await contentHeard(matched.route, body);
    const news = await ofInterest(store.query, deliveryFromResponse(matched, asked.query, content));
    if (!news) return;
    await appendAnswer(store.query, { ...news, sentAt, asOf }, context.random.uuid(), clock.now());
    context.inbox.notify();
  }

  /** Throws `answer_malformed`. */
  async function contentHeard(route: RouteName, body: Buffer): Promise<unknown> {
    const contract: Route = ROUTES[route];
    if (contract.response === undefined || body.length === 0) return undefined;
    if (body.length <= LARGE) return readBody(contract, body);
    // A copy, because the caller gets the same bytes.
    return readLarge(route, Buffer.from(body));
  }

  async function quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      context.logger.error({ error: asSyncError(error) }, 'an answer of the workspace could not be stored');
    }
  }

  return {
    /** Captures an answer that is certainly this workspace's. */
    answered: (asked: Asked, heard: Heard) =>
      quietly(async () => {
        if (isSuccess(heard.status)) await take(asked, heard);
        else if (mayHaveActed(heard.status)) await readAgain(asked);
      }),
    /** Records an answer that may be another workspace's, and so proves nothing. */
    unproved: (asked: Asked, status: number) =>
      quietly(async () => {
        if (isSuccess(status) || mayHaveActed(status)) await readAgain(asked);
      }),
    /** Records a failed request; if it may have been carried out, worksync reads its result. */
    failed: (asked: Asked, error: SyncError) =>
      quietly(async () => {
        if (!wasNotSent(error)) await readAgain(asked);
      }),
  };
}

/** A failure of the server does not show what it did before. */
function mayHaveActed(status: number): boolean {
  return status >= 500;
}

/** Whether the request certainly never left. */
export function wasNotSent(error: SyncError): boolean {
  return !wasSent(error) || error.code === 'aborted';
}

/** Keeps only documents that were attached here. */
async function ofInterest(query: Scope, news: CapturedDelivery | undefined): Promise<CapturedDelivery | undefined> {
  if (news?.action !== 'saw-documents') return news;
  const { documents } = news.body as { documents: readonly { documentId: string }[] };
  const names = documents.map(({ documentId }) => entity.document(documentId));
  const held = new Set((await findEntities(query, names)).map((row) => row.entity));
  const followed = documents.filter(({ documentId }) => held.has(entity.document(documentId)));
  return followed.length === 0 ? undefined : { ...news, body: { documents: followed } };
}

/** Returns the JSON of a body; undefined if it has none. */
function contentOf(body: unknown): unknown {
  if (!Buffer.isBuffer(body)) return body;
  try {
    return body.length === 0 ? undefined : parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}

/** The route and the ids of a request. */
export interface Matched {
  readonly route: RouteName;
  /** Ids of the path by their names. */
  readonly ids: Readonly<Record<string, string>>;
}

interface Pattern {
  readonly route: RouteName;
  readonly method: string;
  readonly segments: readonly string[];
}

/** Returns the route of the contract that a request is for; undefined for other requests, which are only forwarded. */
export type RouteOf = (method: string, path: string) => Matched | undefined;

/** @param api differences of this server's routes from the contract */
export function createRouteOf(api: ApiOverrides = {}): RouteOf {
  return Object.keys(api).length === 0 ? routeOfContract : routeOfPatterns(api);
}

function routeOfPatterns(api: ApiOverrides): RouteOf {
  const patterns = (Object.keys(ROUTES) as RouteName[]).flatMap((route) => patternsOf(route, api));
  return (method, path) => {
    const segments = path.split('/');
    for (const pattern of patterns) {
      if (pattern.method !== method || pattern.segments.length !== segments.length) continue;
      const ids = matchSegments(pattern.segments, segments);
      if (ids) return { route: pattern.route, ids };
    }
    return undefined;
  };
}

function patternsOf(route: RouteName, api: ApiOverrides): Pattern[] {
  const { method, path, alsoAt, alsoBy }: Route = { ...ROUTES[route], ...api.routes?.[route] };
  const paths = [path, ...(alsoAt === undefined ? [] : [alsoAt])];
  const methods = [method, ...(alsoBy === undefined ? [] : [alsoBy])];
  return methods.flatMap((each) => paths.map((one) => ({ route, method: each, segments: one.split('/') })));
}

/** The matcher of nearly every workspace, built once. */
const routeOfContract = routeOfPatterns({});

function matchSegments(pattern: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  const ids: Record<string, string> = {};
  for (const [index, part] of pattern.entries()) {
    const segment = segments[index] as string;
    if (part.startsWith('{')) ids[part.slice(1, -1)] = segment;
    else if (part !== segment) return undefined;
  }
  return ids;
}

type CapturedDelivery = Pick<Answer, 'action' | 'entity' | 'body'>;

type Content = Readonly<Record<string, unknown>>;

const ACTIONS: Readonly<Partial<Record<RouteName, Answer['action']>>> = {
  listTasks: 'saw-tasks',
  getTask: 'saw-task',
  updateTask: 'saw-task',
  createBug: 'saw-task',
  createIdea: 'saw-task',
  listPullRequests: 'saw-records',
  listPullRequestRecords: 'saw-records',
  createPullRequest: 'saw-record',
  recordPullRequest: 'saw-record',
  updatePullRequest: 'saw-record-edit',
};

/** Returns the delivery that a success contains; undefined for resources that worksync does not follow. */
function deliveryFromResponse({ route, ids }: Matched, query: string, content: unknown): CapturedDelivery | undefined {
  const taskId = ids['taskId'] ?? '';
  const documentId = ids['documentId'] ?? '';
  switch (route) {
    case 'removeWorkItem':
      return { action: 'saw-link-removed', entity: '', body: { taskId, workItemId: ids['workItemId'] } };
    case 'detachDocument':
      return documents([{ documentId, taskId: null }]);
    case 'deleteDocument':
      return documents([{ documentId, taskId: null, isMissing: true }]);
  }
  if (typeof content !== 'object' || content === null) return undefined;
  switch (route) {
    case 'listWorkItems':
      return { action: 'read-links', entity: entity.readLinks(taskId), body: content };
    case 'addWorkItem':
      // The path names the task; the answer may not.
      return { action: 'saw-link', entity: '', body: { ...content, taskId } };
    case 'attachDocument':
      return documents([{ ...content, taskId }]);
    case 'getDocument':
    case 'createDocument':
    case 'replaceDocument':
    case 'patchDocument':
      return documents([content]);
    case 'listDocuments':
    case 'listTaskDocuments':
      return documents((content as Content)['documents']);
    case 'listTasks':
      if (asksForAll(query) && isWhole(content as Content))
        return { action: 'read-tasks', entity: entity.readTasks, body: content };
  }
  const action = ACTIONS[route];
  return action && { action, entity: '', body: content };
}

/** Keeps the places of documents, and not their texts, which may be long. */
function documents(found: unknown): CapturedDelivery | undefined {
  const standing = (Array.isArray(found) ? found : []).flatMap((each: Content) => {
    const { documentId, taskId = null, isMissing = false, updatedAt = null } = each ?? {};
    return typeof documentId === 'string' ? [{ documentId, taskId, isMissing, updatedAt }] : [];
  });
  return standing.length === 0 ? undefined : { action: 'saw-documents', entity: '', body: { documents: standing } };
}

/** Whether the answer is the whole list, so that missing elements do not exist. */
function isWhole({ tasks, isLast = null, unreadable = 0 }: Content): boolean {
  return (
    Array.isArray(tasks) && isLast !== false && unreadable === 0 && !mayBeCut(tasks.length, isLast as boolean | null)
  );
}

/** Whether the query has `all=true` and no filter. */
function asksForAll(query: string): boolean {
  const given = [...new URLSearchParams(query)];
  return given.length === 1 && given[0]?.[0] === 'all' && given[0][1] === 'true';
}

/**
 * Requests reads of what a write may have changed.
 *
 * @returns whether there is anything to read
 */
async function enqueueReadsAfter(query: Scope, { route, ids }: Matched, sent: unknown, now: number): Promise<boolean> {
  const reads = await readsFor(query, { route, ids }, sent);
  await enqueueReads(query, reads, now);
  return reads.length > 0;
}

async function readsFor(query: Scope, { route, ids }: Matched, sent: unknown): Promise<string[]> {
  switch (route) {
    case 'addWorkItem':
    case 'removeWorkItem':
      return [entity.readLinks(ids['taskId'] ?? '')];
    case 'createBug':
    case 'createIdea':
    case 'updateTask':
      return [entity.readTasks];
    case 'createPullRequest':
    case 'recordPullRequest':
    case 'updatePullRequest':
      return readsOfRecord(query, sent);
    case 'attachDocument':
    case 'detachDocument':
    case 'deleteDocument':
      return readsOfDocument(query, ids['documentId'] ?? (sent as Fields)?.['documentId']);
    default:
      return [];
  }
}

type Fields = Readonly<Record<string, unknown>> | undefined;

/** Records are found by their branch: the whole list may be long. */
async function readsOfRecord(query: Scope, sent: unknown): Promise<string[]> {
  if ((await readRecordsRoute(query)).state !== 'open') return [];
  const { provider, repoId, identifier, headBranch } = (sent as Fields) ?? {};
  if (typeof provider !== 'string' || (typeof repoId !== 'string' && typeof repoId !== 'number')) return [];
  const held = await findEntity(query, entity.pullRequest(provider, String(repoId), String(identifier)));
  const known: Fields = json(held?.known ?? null);
  const branch = known?.['headBranch'] ?? headBranch;
  return typeof branch === 'string' ? [entity.readRecords(provider, String(repoId), branch)] : [];
}

/** Only those that were attached here are followed. */
async function readsOfDocument(query: Scope, documentId: unknown): Promise<string[]> {
  if (typeof documentId !== 'string' || !(await findEntity(query, entity.document(documentId)))) return [];
  return [entity.readDocument(documentId)];
}
