import { entity } from '../model/change.ts';
import type { Item } from '../model/item.ts';
import { tasksByIds } from '../store/cached-tasks.ts';
import { linksOfItem } from '../store/entities.ts';
import { deferComment, forgetNotice, wantNotice } from '../store/notices.ts';
import { areUnderWay } from '../store/outbox-rows.ts';
import type { Work } from './changes.ts';

/** A task with one of these statuses is finished. */
const FINISHED: ReadonlySet<string> = new Set(['completed', 'merged', 'cancelled']);
const CARRIED_OUT: ReadonlySet<string> = new Set(['completed', 'merged']);

/**
 * What worksync writes to the vendor about an item: the tasks that it is known to be linked to; and its closing, once they are
 * all finished. Only existing links count, so that no comment names a link that never came.
 */
export async function evaluateNotices({ query, item, source }: Work): Promise<void> {
  const { comment = false, close = false } = source.writeBack ?? {};
  if (!comment && !close) return;
  const all = await linksOfItem(query, item.key);
  const links = all.filter(({ known, hand }) => known !== null && hand !== 'removed');
  const tasks = await tasksByIds(
    query,
    links.map(({ task_id }) => task_id as string),
  );
  const about = { itemKey: item.key, connection: source.connection };
  // Each writing costs its readers a mail and the vendor two requests: it waits until all links have come.
  const isIncomplete = await areUnderWay(query, [entity.task(item.key), ...all.map((link) => link.entity)]);
  if (comment && isIncomplete) await deferComment(query, item.key);
  else if (comment) await wantNotice(query, { ...about, kind: 'comment', wanted: textOf(tasks.map(({ key }) => key)) });
  if (!close || item.kind !== 'work_item') return;
  const statuses = tasks.map(({ status }) => status);
  const isOver = statuses.every((status) => FINISHED.has(status)) && statuses.some((status) => CARRIED_OUT.has(status));
  // Reopened by a person it stays open: closing is wanted once for each time that the tasks are finished.
  if (isOver) await wantNotice(query, { ...about, kind: 'close', wanted: 'closed', isDone: isDone(item) });
  else await forgetNotice(query, item.key, 'close');
}

function isDone({ state }: Item): boolean {
  return state === 'done';
}

/** Keys of tasks only: whatever else a task holds may be written by strangers, and would be read by other strangers there. */
function textOf(keys: readonly string[]): string | null {
  const named = keys.filter((key) => /^[A-Za-z0-9-]{1,40}$/.test(key)).sort();
  if (named.length === 0) return null;
  return `Linked to ${new Intl.ListFormat('en').format(named)}.`;
}
