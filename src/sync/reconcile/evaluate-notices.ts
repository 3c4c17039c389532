import { entity } from '../../model/change.ts';
import { formatStatus, statusOf } from '../../model/notice.ts';
import type { Task } from '../../model/task.ts';
import { isFinalStatus, namedStatus } from '../../model/task-status.ts';
import { tasksByIds } from '../../store/cached-tasks.ts';
import { linksOfItem } from '../../store/entities.ts';
import { deferNotice, forgetNotice, requestNotice } from '../../store/notices.ts';
import { areUnderWay } from '../../store/outbox-rows.ts';
import type { Evaluation } from './context.ts';

/**
 * The delay of a commit status, milliseconds. A text may name a task whose read is in flight: the status would fail
 * meanwhile.
 */
const STATUS_DELAY_MS = 3_000;

/**
 * Stores the notices that worksync writes to the vendor: a comment and a commit status with the linked tasks, and the
 * closing of an item with finished tasks. Only existing links count, so that no comment names a link that was never
 * made.
 */
export async function evaluateNotices({ query, item, connection, rules, now }: Evaluation): Promise<void> {
  const { comment = false, close = false, status = false } = connection.writeBack ?? {};
  if (!comment && !close && !status) return;
  const all = await linksOfItem(query, item.key);
  const links = all.filter(({ known, hand }) => known !== null && hand !== 'removed');
  const tasks = await tasksByIds(
    query,
    links.map(({ task_id }) => task_id as string),
  );
  const notice = { itemKey: item.key, connection: connection.name, now };
  // Each notice costs its readers a mail and the vendor two requests, so it waits until all links are made.
  const isIncomplete = await areUnderWay(query, [entity.task(item.key), ...all.map((link) => link.entity)]);
  const keys = publicNames(tasks);
  if (comment && isIncomplete) await deferNotice(query, item.key, 'comment');
  else if (comment) await requestNotice(query, { ...notice, kind: 'comment', wanted: commentText(keys) });
  if (status && item.kind === 'pull_request') {
    const desired = item.state === 'open' ? statusOf(item.headSha, keys, status === 'require') : undefined;
    const notBefore = now + STATUS_DELAY_MS;
    if (!desired) await forgetNotice(query, item.key, 'status');
    else if (isIncomplete) await deferNotice(query, item.key, 'status');
    else await requestNotice(query, { ...notice, kind: 'status', wanted: formatStatus(desired), notBefore });
  }
  if (!close || item.kind !== 'work_item') return;
  const statuses = tasks.map((task) => namedStatus(rules.statuses, task.status));
  const isFinished =
    statuses.every((each) => isFinalStatus(rules.statuses, each)) && statuses.some((each) => each !== 'cancelled');
  // An item that a person reopened stays open: closing is wanted once for each time that the tasks become finished.
  if (isFinished)
    await requestNotice(query, { ...notice, kind: 'close', wanted: 'closed', isDone: item.state === 'done' });
  else await forgetNotice(query, item.key, 'close');
}

/**
 * Returns the keys of tasks, or the ids of tasks without a key. Never titles: outsiders may have written them, and the
 * notice would show them to readers at the vendor.
 */
function publicNames(tasks: readonly Pick<Task, 'taskId' | 'key'>[]): readonly string[] {
  return tasks
    .map(({ taskId, key }) => (key === taskId || KEY.test(key) ? key : ''))
    .filter((key) => KEY.test(key) || ID.test(key))
    .sort();
}

const KEY = /^[A-Za-z0-9-]{1,40}$/;
const ID = /^[A-Za-z0-9_-]{1,64}$/;

function commentText(keys: readonly string[]): string | null {
  return keys.length === 0 ? null : `Linked to ${new Intl.ListFormat('en').format(keys)}.`;
}
