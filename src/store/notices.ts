import { sql } from 'kysely';
import { entity, MAX_TIME_IN_FLIGHT } from '../model/change.ts';
import type { ItemKey } from '../model/item.ts';
import type { PostedComment } from '../model/notice.ts';
import { json } from './entities.ts';
import { areUnderWay } from './outbox-rows.ts';
import type { CachedRow } from './unit-of-work/cached-tables.ts';
import { removeRows, rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

/**
 * What is to be written to a vendor about one item: a comment that names its tasks, its closing, or a commit status. Level-triggered: one row
 * for each, however often reconcile requests it.
 *
 *   waiting → done      it was written, and nothing else is wanted since
 *   waiting → refused   the vendor refused it for good; tried again at the next start, and when another text is wanted
 *   done, refused → waiting  something else is wanted
 *
 * From before a write is sent until its outcome is known, `done` is `UNSURE`: whoever finds that at its start knows that the write may
 * still be on its way.
 */
export type NoticeRow = CachedRow<'notices'>;

/** In `done`: a write was begun, and nobody knows whether the vendor carried it out. */
const UNSURE = '';

interface Wish {
  readonly itemKey: ItemKey;
  readonly kind: NoticeRow['kind'];
  readonly connection: string;
  /** Null: nothing, or no more than what takes an earlier one back. */
  readonly wanted: string | null;
  /** The desired state exists already, whoever made it. */
  readonly isDone?: boolean;
  /** Epoch milliseconds; absent: at once. */
  readonly notBefore?: number;
  readonly now: number;
}

/** Says what is wanted. Unchanged means no write. */
export async function requestNotice(query: Scope, wish: Wish): Promise<void> {
  const { itemKey, kind, connection, wanted, isDone, notBefore = 0, now } = wish;
  const row = await findNotice(query, itemKey, kind);
  if (!row && wanted === null) return;
  const done = isDone ? wanted : (row?.done ?? null);
  const state = wanted === done ? 'done' : 'waiting';
  if (row?.wanted === wanted && row.done === done) return;
  // Another text must not be sent before the one that may be on its way has arrived.
  const arrived = row?.done === UNSURE ? Math.min(row.not_before, now + MAX_TIME_IN_FLIGHT) : 0;
  const not_before = Math.max(notBefore, arrived);
  const set = { connection, wanted, done, state, not_before, attempts: 0, error: null } as const;
  await saveRows(query, 'notices', [{ item_key: itemKey, kind, ...set, standing: row?.standing ?? null }]);
}

/** A closing that was carried out does not count any more: what is reopened at the workspace may be closed once more. */
export async function forgetNotice(query: Scope, itemKey: ItemKey, kind: NoticeRow['kind']): Promise<void> {
  if (await findNotice(query, itemKey, kind)) await removeRows(query, 'notices', [{ item_key: itemKey, kind }]);
}

/** Until all links are known nothing new is wanted. What was tried may have been carried out, and goes on. */
export async function deferNotice(query: Scope, itemKey: ItemKey, kind: NoticeRow['kind']): Promise<void> {
  const row = await findNotice(query, itemKey, kind);
  if (!row || row.attempts > 0 || row.done === UNSURE || row.wanted === row.done) return;
  if (row.done === null) await removeRows(query, 'notices', [row]);
  else await saveRows(query, 'notices', [{ ...row, wanted: row.done, state: 'done', not_before: 0 }]);
}

async function findNotice(query: Scope, itemKey: ItemKey, kind: NoticeRow['kind']): Promise<NoticeRow | undefined> {
  const rows = await rowsWhere(query, 'notices', 'item_key', [itemKey]);
  return rows.find((row) => row.kind === kind);
}

/** Reads at once what is known of the notices of these items, for those who will ask for it. */
export async function prefetchNotices(query: Scope, itemKeys: readonly ItemKey[]): Promise<void> {
  await rowsWhere(query, 'notices', 'item_key', itemKeys);
}

/** Those of an item. */
export async function noticesOf(query: Scope, itemKey: ItemKey): Promise<NoticeRow[]> {
  return query.selectFrom('notices').selectAll().where('item_key', '=', itemKey).orderBy('kind').execute();
}

/**
 * Those that may be tried, of these connections. While the list of tasks is read, a first comment waits, and a status: an item may name a
 * task that only this list brings.
 */
export async function dueNotices(query: Scope, connections: readonly string[], now: number): Promise<NoticeRow[]> {
  return waiting(query, connections, await isReadingTasks(query))
    .where('not_before', '<=', now)
    .orderBy('not_before')
    .limit(20)
    .execute();
}

/** When the next may be tried. */
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

/** Leaves out items that are unverified since a restore: nothing is written because of them. */
const isVerified = sql<boolean>`not exists (select 1 from items where items.workspace = notices.workspace
  and items.key = notices.item_key and items.unverified = 1)`;

/**
 * Before it is sent: a process that dies meanwhile leaves word of it.
 *
 * @returns false where something else is wanted by now
 */
export async function beginNotice(query: Scope, notice: NoticeRow): Promise<boolean> {
  const row = await findNotice(query, notice.item_key, notice.kind);
  const isStillWanted =
    row?.state === 'waiting' && row.wanted === notice.wanted && row.not_before === notice.not_before;
  if (isStillWanted) await updateNotice(query, notice, { done: UNSURE });
  return isStillWanted;
}

/** It was written as it was wanted then. */
export async function settleNotice(query: Scope, notice: NoticeRow, comment?: PostedComment): Promise<void> {
  const row = await findNotice(query, notice.item_key, notice.kind);
  if (!row) return;
  const sent = notice.wanted;
  const standing = comment && JSON.stringify(comment);
  const settled = { done: sent, attempts: 0, not_before: 0, error: null, ...(standing && { standing }) };
  await updateNotice(query, row, { ...settled, state: row.wanted === sent ? 'done' : 'waiting' });
}

/** It was not written, or nobody knows. What was refused is what was sent: where another text is wanted by now, that is tried. */
export async function postponeNotice(
  query: Scope,
  notice: NoticeRow,
  failed: Pick<NoticeRow, 'state' | 'attempts' | 'not_before' | 'error'> & Partial<Pick<NoticeRow, 'done'>>,
): Promise<void> {
  const row = await findNotice(query, notice.item_key, notice.kind);
  if (!row) return;
  const isOther = failed.state === 'refused' && row.wanted !== notice.wanted;
  await updateNotice(query, row, isOther ? { ...failed, state: 'waiting', attempts: 0 } : failed);
}

/** The comment that stands at the vendor; undefined where none was written, or nobody knows by whom. */
export async function currentComment(query: Scope, itemKey: ItemKey): Promise<PostedComment | undefined> {
  return json<PostedComment>((await findNotice(query, itemKey, 'comment'))?.standing ?? null);
}

async function updateNotice(query: Scope, { item_key, kind }: NoticeRow, set: Partial<NoticeRow>): Promise<void> {
  await query.updateTable('notices').set(set).where('item_key', '=', item_key).where('kind', '=', kind).execute();
}

/** Why the vendor refused such a notice of this connection for good, if it refused one. */
export async function refusalOfNotices(
  query: Scope,
  connection: string,
  kind: NoticeRow['kind'],
): Promise<string | undefined> {
  const row = await query
    .selectFrom('notices')
    .select('error')
    .where('state', '=', 'refused')
    .where('connection', '=', connection)
    .where('kind', '=', kind)
    .limit(1)
    .executeTakeFirst();
  return row?.error ?? undefined;
}

/**
 * At the start. Rights may have been given since, so what was refused is tried again, and what waited is too: it may have been dated by
 * another clock. What another process was writing when it ended, or lost the workspace, waits until it must have arrived.
 */
export async function resumeNotices(query: Scope, now: number): Promise<void> {
  const anew = { state: 'waiting', attempts: 0, not_before: 0 } as const;
  await query.updateTable('notices').set(anew).where('state', '=', 'refused').execute();
  await waitNoLonger(query, now);
  await untilArrived(query, now).execute();
}

/** The clock was set back: nothing waits until the old time has come again. */
export async function clampNoticeTimes(query: Scope, now: number): Promise<void> {
  await waitNoLonger(query, now);
  await untilArrived(query, now)
    .where('not_before', '>', now + MAX_TIME_IN_FLIGHT)
    .execute();
}

async function waitNoLonger(query: Scope, now: number): Promise<void> {
  await query
    .updateTable('notices')
    .set({ not_before: 0 })
    .where('state', '=', 'waiting')
    .where('not_before', '>', now)
    .where(({ or, eb }) => or([eb('done', 'is', null), eb('done', '!=', UNSURE)]))
    .execute();
}

/** Those that may be on their way, which must have arrived first. */
function untilArrived(query: Scope, now: number) {
  return query
    .updateTable('notices')
    .set({ not_before: now + MAX_TIME_IN_FLIGHT })
    .where('state', '=', 'waiting')
    .where('done', '=', UNSURE);
}
