import { sql } from 'kysely';
import { entity, MAX_TIME_IN_FLIGHT } from '../../model/change.ts';
import type { ItemKey } from '../../model/item.ts';
import type { PostedComment } from '../../model/notice.ts';
import { areUnderWay } from '../changes/outbox-rows.ts';
import type { CachedRow } from '../unit-of-work/cached-tables.ts';
import { removeRows, rowsWhere, saveRows } from '../unit-of-work/unit-of-work.ts';
import { changeInChunks, json, type Scope, type Store } from '../workspace-scope.ts';

/**
 * A write to a vendor about one item: a comment that names its tasks, its closing, or a commit status. Level-triggered: there is
 * one row for each, however often reconcile requests it.
 *
 *   waiting → done           it was written, and the requested text has not changed since
 *   waiting → refused        the vendor refused it; tried again at the next start, when another text is requested, and each hour if
 *                            the credential lacked a right
 *   done, refused → waiting  another text is requested
 *
 * From before a write is sent until its outcome is known, `done` is `OUTCOME_UNKNOWN`. A process that finds this value at its
 * start knows that the write may still be in flight.
 */
export type NoticeRow = CachedRow<'notices'>;

/** The value of `done` while a write has begun and its outcome is unknown. */
const OUTCOME_UNKNOWN = '';

interface NoticeRequest extends Pick<NoticeRow, 'kind' | 'connection' | 'wanted'> {
  readonly itemKey: ItemKey;
  /** The vendor has the desired state already, for example because a person set it. */
  readonly isDone?: boolean;
  /** Epoch milliseconds; absent: at once. */
  readonly notBefore?: number;
  readonly now: number;
}

/** Sets the desired text of a notice; null withdraws an earlier one. An unchanged one is not written. */
export async function requestNotice(query: Scope, request: NoticeRequest): Promise<void> {
  const { itemKey, kind, connection, wanted, isDone, notBefore = 0, now } = request;
  const row = await findNotice(query, itemKey, kind);
  if (!row && wanted === null) return;
  const done = isDone ? wanted : (row?.done ?? null);
  const state = wanted === done ? 'done' : 'waiting';
  if (row?.wanted === wanted && row.done === done) return;
  // The new text must not be sent before an earlier one that may be in flight has arrived.
  const arrived = row?.done === OUTCOME_UNKNOWN ? Math.min(row.not_before, now + MAX_TIME_IN_FLIGHT) : 0;
  const not_before = Math.max(notBefore, arrived);
  const set = { connection, wanted, done, state, not_before, attempts: 0, error: null } as const;
  await saveRows(query, 'notices', [{ item_key: itemKey, kind, ...set, standing: row?.standing ?? null }]);
}

/** Removes a notice. After the removal of a closing, an item whose task was reopened can be closed once more. */
export async function forgetNotice(query: Scope, itemKey: ItemKey, kind: NoticeRow['kind']): Promise<void> {
  if (await findNotice(query, itemKey, kind)) await removeRows(query, 'notices', [{ item_key: itemKey, kind }]);
}

/** Withdraws a new notice until all links are known. One that was tried stays, because the vendor may have carried it out. */
export async function deferNotice(query: Scope, itemKey: ItemKey, kind: NoticeRow['kind']): Promise<void> {
  const row = await findNotice(query, itemKey, kind);
  if (!row || row.attempts > 0 || row.done === OUTCOME_UNKNOWN || row.wanted === row.done) return;
  if (row.done === null) await removeRows(query, 'notices', [row]);
  else await saveRows(query, 'notices', [{ ...row, wanted: row.done, state: 'done', not_before: 0 }]);
}

/**
 * Withdraws the unwritten notices that the configuration no longer wants. One whose outcome is unknown may be written a second time
 * if it is wanted again.
 *
 * @param wanted the connections for which each kind is switched on
 */
export async function withdrawNotices(
  store: Pick<Store, 'commit'>,
  wanted: Readonly<Record<NoticeRow['kind'], readonly string[]>>,
): Promise<void> {
  for (const kind of ['comment', 'close', 'status'] as const)
    await changeInChunks(store, async (query, limit) => {
      const unwritten = query.selectFrom('notices').select('item_key').where('state', 'in', ['waiting', 'refused']);
      const unwanted = unwritten.where('kind', '=', kind).where('connection', 'not in', ['', ...wanted[kind]]);
      const keys = (await unwanted.limit(limit).execute()).map(({ item_key }) => item_key);
      if (keys.length > 0) await withdraw(query, kind, keys);
      return keys.length;
    });
}

/** Withdraws notices of one kind: what was written of them stays stored. */
export async function withdraw(query: Scope, kind: NoticeRow['kind'], keys: readonly ItemKey[]): Promise<void> {
  const unwritten = query.deleteFrom('notices').where('kind', '=', kind).where('item_key', 'in', keys);
  await unwritten.where('done', 'is', null).execute();
  const tried = query.updateTable('notices').where('kind', '=', kind).where('item_key', 'in', keys);
  await tried
    .set(({ ref }) => ({ wanted: ref('done'), state: 'done', not_before: 0 }))
    .where('done', '!=', OUTCOME_UNKNOWN)
    .execute();
  await tried.set({ wanted: null, state: 'done' }).where('done', '=', OUTCOME_UNKNOWN).execute();
}

async function findNotice(query: Scope, itemKey: ItemKey, kind: NoticeRow['kind']): Promise<NoticeRow | undefined> {
  const rows = await rowsWhere(query, 'notices', 'item_key', [itemKey]);
  return rows.find((row) => row.kind === kind);
}

/** Reads the notices of these items into the unit of work at once, so that later reads of single ones need no statement. */
export async function prefetchNotices(query: Scope, itemKeys: readonly ItemKey[]): Promise<void> {
  await rowsWhere(query, 'notices', 'item_key', itemKeys);
}

/** Returns the notices of an item. */
export async function noticesOf(query: Scope, itemKey: ItemKey): Promise<NoticeRow[]> {
  return query.selectFrom('notices').selectAll().where('item_key', '=', itemKey).orderBy('kind').execute();
}

/**
 * Returns notices of these connections that may be written now. While the list of tasks is read, first comments and statuses wait,
 * because an item may name a task that is only known from this list.
 */
export async function dueNotices(query: Scope, connections: readonly string[], now: number): Promise<NoticeRow[]> {
  return waiting(query, connections, await isReadingTasks(query))
    .where('not_before', '<=', now)
    .orderBy('not_before')
    .limit(20)
    .execute();
}

/** Returns when the next notice may be written, epoch milliseconds. */
export async function nextNotice(query: Scope, connections: readonly string[]): Promise<number | undefined> {
  const open = waiting(query, connections, await isReadingTasks(query));
  const row = await open.orderBy('not_before').limit(1).executeTakeFirst();
  return row?.not_before;
}

function isReadingTasks(query: Scope): Promise<boolean> {
  return areUnderWay(query, [entity.readTasks]);
}

function waiting(query: Scope, connections: readonly string[], isReading: boolean) {
  const open = query
    .selectFrom('notices')
    .selectAll()
    .where('state', '=', 'waiting')
    .where('connection', 'in', ['', ...connections])
    .where(isVerified);
  if (!isReading) return open;
  return open.where(({ or, and, eb }) =>
    or([eb('kind', '=', 'close'), and([eb('kind', '=', 'comment'), eb('done', 'is not', null)])]),
  );
}

/** Leaves out items that are unverified since a restore, because nothing is written about them. */
const isVerified = sql<boolean>`not exists (select 1 from items where items.workspace = notices.workspace
  and items.key = notices.item_key and items.unverified = 1)`;

/**
 * Records that a notice is about to be sent, so that the next process knows of it if this one dies.
 *
 * @returns false if another text is requested by now
 */
export async function beginNotice(query: Scope, notice: NoticeRow): Promise<boolean> {
  const row = await findNotice(query, notice.item_key, notice.kind);
  const isStillWanted =
    row?.state === 'waiting' && row.wanted === notice.wanted && row.not_before === notice.not_before;
  if (isStillWanted) await updateNotice(query, notice, { done: OUTCOME_UNKNOWN });
  return isStillWanted;
}

/** Records that the text of `notice` was written. The row stays `waiting` if another text has been requested since. */
export async function settleNotice(query: Scope, notice: NoticeRow, comment?: PostedComment): Promise<void> {
  const row = await findNotice(query, notice.item_key, notice.kind);
  if (!row) return;
  const sent = notice.wanted;
  const standing = comment && JSON.stringify(comment);
  const settled = { done: sent, attempts: 0, not_before: 0, error: null, ...(standing && { standing }) };
  await updateNotice(query, row, { ...settled, state: row.wanted === sent ? 'done' : 'waiting' });
}

/** Records a failure or an unknown outcome. If another text has been requested since, a refusal does not concern it. */
export async function postponeNotice(
  query: Scope,
  notice: NoticeRow,
  failed: Pick<NoticeRow, 'state' | 'attempts' | 'not_before' | 'error'> & Partial<Pick<NoticeRow, 'done'>>,
): Promise<void> {
  const row = await findNotice(query, notice.item_key, notice.kind);
  if (!row) return;
  const isOther = failed.state === 'refused' && row.wanted !== notice.wanted;
  await updateNotice(query, row, isOther ? { ...failed, state: 'waiting', attempts: 0, error: null } : failed);
}

/** Returns the comment that worksync has at the vendor; undefined if there is none, or if its author is not known. */
export async function currentComment(query: Scope, itemKey: ItemKey): Promise<PostedComment | undefined> {
  return json<PostedComment>((await findNotice(query, itemKey, 'comment'))?.standing ?? null);
}

async function updateNotice(query: Scope, { item_key, kind }: NoticeRow, set: Partial<NoticeRow>): Promise<void> {
  await query.updateTable('notices').set(set).where('item_key', '=', item_key).where('kind', '=', kind).execute();
}

/** Includes notices that wait to be tried again after a refusal: they have its error, and no attempt since. */
export const isRefused = sql<boolean>`(state in ('refused', 'waiting') and error is not null
  and (state = 'refused' or (attempts = 0 and error not like 'rate_limited:%')))`;

/** Returns why the vendor refused a notice of this kind and connection; undefined if it refused none. */
export async function refusalOfNotices(
  query: Scope,
  connection: string,
  kind: NoticeRow['kind'],
): Promise<string | undefined> {
  const refused = query.selectFrom('notices').select('error').where(isRefused).limit(1);
  const row = await refused.where('connection', '=', connection).where('kind', '=', kind).executeTakeFirst();
  return row?.error ?? undefined;
}

/**
 * Prepares the notices at the start. Refused notices are tried again, because rights may have been granted since. Pauses are
 * removed, because they may come from another clock. A notice whose outcome is unknown waits until it must have arrived.
 */
export async function resumeNotices(query: Scope, now: number): Promise<void> {
  await refusedAnew(query).execute();
  await endPauses(query, now);
  await waitForArrival(query, now).execute();
}

/** Lets refused notices be tried again whose credential lacked a right. */
export async function resumeForbidden(query: Scope): Promise<void> {
  await refusedAnew(query).where('error', 'like', 'forbidden:%').execute();
}

function refusedAnew(query: Scope) {
  const anew = { state: 'waiting', attempts: 0, not_before: 0 } as const;
  return query.updateTable('notices').set(anew).where('state', '=', 'refused');
}

/** Removes pauses after the clock was set back, because they would last until the old time comes again. */
export async function clampNoticeTimes(query: Scope, now: number): Promise<void> {
  await endPauses(query, now);
  const paused = waitForArrival(query, now).where('not_before', '>', now + MAX_TIME_IN_FLIGHT);
  await paused.execute();
}

async function endPauses(query: Scope, now: number): Promise<void> {
  await query
    .updateTable('notices')
    .set({ not_before: 0 })
    .where('state', '=', 'waiting')
    .where('not_before', '>', now)
    .where(({ or, eb }) => or([eb('done', 'is', null), eb('done', '!=', OUTCOME_UNKNOWN)]))
    .execute();
}

/** Lets notices that may be in flight wait until they must have arrived. */
function waitForArrival(query: Scope, now: number) {
  return query
    .updateTable('notices')
    .set({ not_before: now + MAX_TIME_IN_FLIGHT })
    .where('state', '=', 'waiting')
    .where('done', '=', OUTCOME_UNKNOWN);
}
