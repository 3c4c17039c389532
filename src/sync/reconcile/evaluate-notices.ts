import { entity } from '../../model/change.ts';
import type { Item } from '../../model/item.ts';
import { formatStatus, statusOf } from '../../model/notice.ts';
import type { Task } from '../../model/task.ts';
import { tasksByIds } from '../../store/cached-tasks.ts';
import { linksOfItem } from '../../store/entities.ts';
import { deferNotice, forgetNotice, requestNotice } from '../../store/notices.ts';
import { areUnderWay } from '../../store/outbox-rows.ts';
import type { Work } from './changes.ts';

/** A task with one of these statuses is finished. */
const FINISHED: ReadonlySet<string> = new Set(['completed', 'merged', 'cancelled']);
const CARRIED_OUT: ReadonlySet<string> = new Set(['completed', 'merged']);

/** A text may name a task that is being read: the status would fail meanwhile. Milliseconds. */
const QUIET = 3_000;

/**
 * What worksync writes to the vendor about an item: the tasks that it is known to be linked to, in a comment and as
 * the commit status of its head; and its closing, once they are all finished. Only existing links count, so that no comment names a link that never came.
 */
export async function evaluateNotices({ query, item, source, moment: { now } }: Work): Promise<void> {
  const { comment = false, close = false, status = false } = source.writeBack ?? {};
  if (!comment && !close && !status) return;
  const all = await linksOfItem(query, item.key);
  const links = all.filter(({ known, hand }) => known !== null && hand !== 'removed');
  const tasks = await tasksByIds(
    query,
    links.map(({ task_id }) => task_id as string),
  );
  const about = { itemKey: item.key, connection: source.connection, now };
  // Each writing costs its readers a mail and the vendor two requests: it waits until all links have come.
  const isIncomplete = await areUnderWay(query, [entity.task(item.key), ...all.map((link) => link.entity)]);
  const keys = shownKeys(tasks);
  if (comment && isIncomplete) await deferNotice(query, item.key, 'comment');
  else if (comment) await requestNotice(query, { ...about, kind: 'comment', wanted: textOf(keys) });
  if (status && item.kind === 'pull_request') {
    const wanted = item.state === 'open' ? statusOf(item.headSha, keys, status === 'require') : undefined;
    if (!wanted) await forgetNotice(query, item.key, 'status');
    else if (isIncomplete) await deferNotice(query, item.key, 'status');
    else await requestNotice(query, { ...about, kind: 'status', wanted: formatStatus(wanted), notBefore: now + QUIET });
  }
  if (!close || item.kind !== 'work_item') return;
  const statuses = tasks.map(({ status }) => status);
  const isOver = statuses.every((status) => FINISHED.has(status)) && statuses.some((status) => CARRIED_OUT.has(status));
  // Reopened by a person it stays open: closing is wanted once for each time that the tasks are finished.
  if (isOver) await requestNotice(query, { ...about, kind: 'close', wanted: 'closed', isDone: isDone(item) });
  else await forgetNotice(query, item.key, 'close');
}

function isDone({ state }: Item): boolean {
  return state === 'done';
}

/**
 * Keys, or ids of tasks without one. Never titles: strangers may have written them, and other strangers would read them
 * at the vendor.
 */
function shownKeys(tasks: readonly Pick<Task, 'taskId' | 'key'>[]): readonly string[] {
  return tasks
    .map(({ taskId, key }) => (key === taskId || KEY.test(key) ? key : ''))
    .filter((key) => KEY.test(key) || ID.test(key))
    .sort();
}

const KEY = /^[A-Za-z0-9-]{1,40}$/;
const ID = /^[A-Za-z0-9_-]{1,64}$/;

function textOf(keys: readonly string[]): string | null {
  return keys.length === 0 ? null : `Linked to ${new Intl.ListFormat('en').format(keys)}.`;
}
