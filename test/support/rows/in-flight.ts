import { type ErrorCode, SyncError } from '../../../src/model/errors.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { blankEntity, type EntityRow, saveEntity } from '../../../src/store/changes/entities.ts';
import { addDifference, type OutboxRow } from '../../../src/store/changes/outbox-rows.ts';
import { configureLinks } from '../../../src/store/workspace/server-capabilities.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { prepareNext } from '../../../src/sync/outbox/claim.ts';
import type { PreparedRequest } from '../../../src/sync/outbox/request.ts';
import { openTestStore } from '../harness/intake.ts';
import { differs, waits } from './changes.ts';

/** Requests of the outbox in flight, and the errors that may end them. */

export const SENT_AT = 1_000;
export const NOW = 2_000;
/** Makes each pause as long as possible. */
const random = { ...systemRandom(), float: () => 1 };
export const CONTEXT = { now: NOW, random, usedShare: 0 };
export const ITEM = 'jira:cloud:issue:1';
export const LINK = `link:${ITEM}>t1`;
export const RECORD = 'pull_request:github/7/1';
export const TASK = `task:${ITEM}`;
const DOCUMENT = 'document:d1';

const of = (entity: string, kind: EntityRow['kind'], row: Partial<EntityRow>) =>
  blankEntity(entity, kind, { item_key: ITEM, task_id: 't1', ...row });
export const record = of(RECORD, 'pull_request', { desired: '{"a":1}' });
export const link = of(LINK, 'link', { desired: '{"url":"u"}' });
export const removal = of(LINK, 'link', { known: '{"url":"u"}', remote_id: 'w1' });
export const newTask = of(TASK, 'task', { desired: '{"a":1}' });
export const attachment = of(DOCUMENT, 'document', { desired: '{}', known: '{"taskId":null}' });

export async function take(query: Scope): Promise<PreparedRequest> {
  const prepared = await prepareNext(query, { now: SENT_AT, onlyReads: false });
  if (!prepared) throw new Error('nothing is to be sent');
  return prepared;
}

/** Claims a change of this entity, on a server that never duplicates a link. */
export async function inFlight(row: EntityRow, change: Partial<OutboxRow> = {}) {
  const store = await openTestStore();
  await configureLinks(store.query, true);
  await differs(store.query, row, change);
  return { store, query: store.query, prepared: await take(store.query) };
}

export async function readInFlight(entity: string, change: Partial<OutboxRow> = {}) {
  const store = await openTestStore();
  await waits(store.query, entity, { kind: 'read', ...change });
  return { store, query: store.query, prepared: await take(store.query) };
}

export async function changeMeanwhile(query: Scope, row: EntityRow, at: number): Promise<void> {
  await saveEntity(query, row);
  const { entity, kind } = row;
  const difference = { entity, kind, lane: 'link', since: at, due: at, weight: 1, waiting: [{ id: 9, at }] } as const;
  await addDifference(query, difference);
}

export const failed = (code: ErrorCode, status?: number, errorCode?: string) =>
  new SyncError(code, 'why', { status, errorCode, own: errorCode !== undefined });
export const LOST = failed('outcome_unknown');
export const UNREACHABLE = failed('unreachable');
export const LIMITED = failed('rate_limited', 429, 'rate_limited');
export const FULL = failed('workspace_full', 507, 'storage_full');
export const REFUSED = failed('refused', 422, 'validation_failed');
export const ABSENT = failed('not_found', 404, 'not_found');
/** The answer of a proxy in front of the workspace. */
export const ABSENT_ROUTE = failed('not_found', 404);
export const NEVER_SENT = failed('refused');
