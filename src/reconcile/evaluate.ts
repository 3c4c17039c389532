import { type Effect, effectOf, entity } from '../model/change.ts';
import { type Item, isFinished, type PullRequest } from '../model/item.ts';
import { allowance, type Lane } from '../model/lane.ts';
import type { LinkReason } from '../model/link.ts';
import type { Task } from '../model/task.ts';
import type { Query } from '../store/database.ts';
import {
  blankEntity,
  type EntityRow,
  findEntity,
  forgetEntity,
  json,
  linksOfItem,
  saveEntity,
} from '../store/entities.ts';
import { saveMentions } from '../store/mentions.ts';
import { addDifference, dropDifference, findChange, type Waiting } from '../store/outbox.ts';
import { tasksByKeys } from '../store/tasks.ts';
import type { Moment, Source } from './context.ts';
import { desiredLink, desiredRecord, sentRepoId } from './desired.ts';
import { recordDiffers } from './diff.ts';
import { mentionsOf } from './link-rules.ts';

/** Why an item is looked at: the deliveries that changed it, and since when. */
export interface Cause {
  readonly since: number;
  readonly waiting: readonly Waiting[];
  /** Nothing but a backfill brought it: it waits behind everything else, and a person has asked for it. */
  readonly isBackfill?: boolean;
}

/** What a record of the workspace says beside the fields we write: the tasks that have a link with its URL. */
interface KnownRecord extends Readonly<Record<string, unknown>> {
  readonly taskIds?: readonly string[];
}

/** A link as it is known: an absent `externalId` means that nobody has looked at who made it. */
export interface KnownLink {
  readonly url?: string;
  readonly externalId?: string | null;
}

/**
 * Works out what the workspace should hold for one item, compares it with what it is known to hold, and writes the
 * difference to the outbox. Level-triggered: it does not matter which delivery asked, or how often.
 *
 * @returns the task keys that the item names and that are no cached task
 */
export async function evaluate(
  query: Query,
  item: Item,
  source: Source,
  cause: Cause,
  moment: Moment,
): Promise<readonly string[]> {
  const work = { query, item, source, cause, moment };
  if (item.gone) {
    await letGo(work);
    return [];
  }
  const mentions = mentionsOf(item);
  await saveMentions(query, item.key, mentions);
  const tasks = await tasksByKeys(
    query,
    mentions.map(({ taskKey }) => taskKey),
  );
  const record = item.kind === 'pull_request' ? await evaluateRecord(work, item) : undefined;
  const wanted = new Map<string, Wanted>();
  for (const { taskKey, reason } of mentions) {
    const task = tasks.get(taskKey);
    if (task) wanted.set(task.taskId, { task, reason });
  }
  await evaluateLinks(work, wanted, record);
  return mentions.map(({ taskKey }) => taskKey).filter((taskKey) => !tasks.has(taskKey));
}

interface Work {
  readonly query: Query;
  readonly item: Item;
  readonly source: Source;
  readonly cause: Cause;
  readonly moment: Moment;
}

interface Wanted {
  readonly task: Task;
  readonly reason: LinkReason;
}

/** A gone item writes nothing more; what stands in the workspace stays. */
async function letGo({ query, item, source }: Work): Promise<void> {
  if (item.kind === 'pull_request') await dropDifference(query, recordEntity(item, source));
  for (const link of await linksOfItem(query, item.key)) await dropDifference(query, link.entity);
}

function recordEntity(item: PullRequest, source: Source): string {
  return entity.pullRequest(source.vendor.id, sentRepoId(item, source.vendor), item.identifier);
}

async function evaluateRecord(work: Work, item: PullRequest): Promise<KnownRecord | undefined> {
  const { query, source } = work;
  const name = recordEntity(item, source);
  const row = (await findEntity(query, name)) ?? blankEntity(name, 'pull_request');
  const known = json<KnownRecord>(row.known);
  const desired = source.mirror ? desiredRecord(item, source.vendor) : undefined;
  if (desired === undefined && known === undefined) return undefined;
  const next = desired ? JSON.stringify(desired) : null;
  await saveEntity(query, { ...row, item_key: item.key, desired: next });
  const differs = desired !== undefined && recordDiffers({ ...desired }, known, source.vendor.capabilities);
  const effect = effectOf('pull_request', desired && { ...desired }, known);
  await setDifference(work, name, 'mirror', { differs, renewed: row.desired !== next, effect });
  return known;
}

async function evaluateLinks(
  work: Work,
  wanted: ReadonlyMap<string, Wanted>,
  record: KnownRecord | undefined,
): Promise<void> {
  const { query, item } = work;
  const rows = new Map((await linksOfItem(query, item.key)).map((row) => [row.task_id as string, row]));
  for (const taskId of record?.taskIds ?? []) {
    // Links that nobody wants of us were made by hand, or before our database was lost: they stay as they are.
    if (wanted.has(taskId) && !rows.has(taskId)) rows.set(taskId, unexplained(item, taskId, work.moment.now));
  }
  for (const [taskId, { reason }] of wanted) {
    const name = entity.link(item.key, taskId);
    const row = rows.get(taskId) ?? blankEntity(name, 'link', { item_key: item.key, task_id: taskId });
    await wantLink(work, row, reason);
    rows.delete(taskId);
  }
  for (const row of rows.values()) await unwantLink(work, row);
}

/** The workspace says that the link exists, and we do not know who made it. */
function unexplained(item: Item, taskId: string, now: number): EntityRow {
  const known = JSON.stringify({ url: item.url } satisfies KnownLink);
  const ids = { item_key: item.key, task_id: taskId, known, known_at: now };
  return blankEntity(entity.link(item.key, taskId), 'link', ids);
}

async function wantLink(work: Work, row: EntityRow, reason: LinkReason): Promise<void> {
  const link = desiredLink(work.item);
  if (link === undefined) return;
  const next = JSON.stringify({ ...link, reason });
  await saveEntity(work.query, { ...row, desired: next });
  // A link that a person took away is not added again while the text goes on naming the task.
  const differs = row.known === null && row.hand !== 'removed';
  await setDifference(work, row.entity, 'link', { differs, renewed: row.desired !== next, effect: 'creation' });
}

async function unwantLink(work: Work, row: EntityRow): Promise<void> {
  const { query } = work;
  if (row.known === null) return abandonLink(work, row);
  await saveEntity(query, { ...row, desired: null });
  if (row.hand === 'manual') return dropDifference(query, row.entity);
  const { externalId } = json<KnownLink>(row.known) ?? {};
  if (externalId !== undefined && row.remote_id !== null) {
    const renewed = row.desired !== null;
    return setDifference(work, row.entity, 'link', { differs: true, renewed, effect: 'removal' });
  }
  // Who made it, and under which id, only the task's links can tell; the answer brings us back here.
  await addChange(work, entity.readLinks(row.task_id as string), 'read', 'link', { renewed: true, effect: 'removal' });
}

/** Nothing is known to stand in the workspace, unless a request is in flight: then its answer decides. */
async function abandonLink(work: Work, row: EntityRow): Promise<void> {
  const { query } = work;
  const change = await findChange(query, row.entity);
  // A request that stands in the row is in flight or of unknown fate.
  if (change === undefined || change.sent === null) {
    await dropDifference(query, row.entity);
    await forgetEntity(query, row.entity);
    return strikeTask(work, row.task_id as string);
  }
  await saveEntity(query, { ...row, desired: null });
  await addChange(work, row.entity, 'link', 'link', { renewed: row.desired !== null, effect: 'removal' });
}

/** The record's list of tasks is older than what the link's own row said: named anew, the task is to be linked anew. */
async function strikeTask({ query, item, source }: Work, taskId: string): Promise<void> {
  if (item.kind !== 'pull_request') return;
  const row = await findEntity(query, recordEntity(item, source));
  const known = json<KnownRecord>(row?.known ?? null);
  if (!row || !known?.taskIds?.includes(taskId)) return;
  const taskIds = known.taskIds.filter((id) => id !== taskId);
  await saveEntity(query, { ...row, known: JSON.stringify({ ...known, taskIds }) });
}

interface Outcome {
  /** What would be sent is something else than before. */
  readonly renewed: boolean;
  readonly effect: Effect | null;
}

async function setDifference(
  work: Work,
  name: string,
  lane: 'mirror' | 'link',
  { differs, ...outcome }: Outcome & { readonly differs: boolean },
): Promise<void> {
  if (!differs) return dropDifference(work.query, name);
  await addChange(work, name, lane === 'mirror' ? 'pull_request' : 'link', lane, outcome);
}

async function addChange(
  work: Work,
  name: string,
  kind: 'pull_request' | 'link' | 'read',
  lane: Lane,
  outcome: Outcome,
): Promise<void> {
  const { query, item, cause, moment } = work;
  const own = cause.isBackfill ? 'backfill' : lane;
  await addDifference(query, {
    entity: name,
    kind,
    lane: own,
    since: cause.since,
    due: cause.since + allowance(own, moment.usedShare, moment.visibility),
    weight: isFinished(item) ? 2 : 1,
    confirmed: cause.isBackfill === true,
    ...outcome,
    waiting: cause.waiting,
  });
}
