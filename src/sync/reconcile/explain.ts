import { entity } from '../../model/change.ts';
import type { Item } from '../../model/item.ts';
import type { LinkReason } from '../../model/link.ts';
import { taskName } from '../../model/task.ts';
import { taskIdPrefixes, taskNameOf, tasksByIds } from '../../store/cached-tasks.ts';
import { type EntityRow, findEntity, json, linksOfItem } from '../../store/entities.ts';
import { type DeliverySummary, findDelivery } from '../../store/inbox.ts';
import { findItem, readFields } from '../../store/items.ts';
import { type NoticeRow, noticesOf } from '../../store/notices.ts';
import { findChange } from '../../store/outbox-rows.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { Source, Sources } from './context.ts';
import { standingTasks } from './evaluate-links.ts';
import { decideTask } from './evaluate-task.ts';
import type { Rules } from './item-rules.ts';
import { lookUp, type Resolved } from './resolve.ts';

/** The last request of ours for a link or a task that was answered. */
interface ToldRequest {
  readonly action: string;
  /** Epoch milliseconds. */
  readonly sentAt: number;
  readonly answeredAt: number;
  /** Its id: the answer stands in the inbox as `answer:<id>`. */
  readonly id: string;
}

interface ExplainedLink {
  /** Key of the task, or its id where it has none. */
  readonly task: string;
  /** Name of the task for people: see `taskName`. */
  readonly name: string;
  readonly taskId: string;
  /**
   * linked   it stands in the workspace, and we made it, or found it where we wanted it.
   * manual   it stands there, and a person made it: it is never removed.
   * removed  a person took it away: it is not added again while the text goes on naming the task.
   * waiting, sending, held, unknown  as the change that is to bring it about, or to take it away.
   * absent   nothing asks for it.
   */
  readonly state: 'linked' | 'manual' | 'removed' | 'waiting' | 'sending' | 'held' | 'unknown' | 'absent';
  readonly reason: LinkReason | null;
  readonly delivery: DeliverySummary | null;
  readonly request: ToldRequest | null;
  /** Why the change is held, or failed last. */
  readonly error: string | null;
}

/** Something that the texts name and that is not linked. */
interface ExplainedMention extends Pick<Resolved, 'rule' | 'place' | 'text' | 'outcome'> {
  readonly via: string | null;
  /** By a former name of that item. */
  readonly isFormerName: boolean;
  readonly why: string;
}

export interface ExplainedItem {
  readonly item: string;
  readonly connection: string;
  readonly url: string | null;
  readonly title: string | null;
  readonly gone: boolean;
  readonly links: readonly ExplainedLink[];
  readonly others: readonly ExplainedMention[];
  /** For a work item: whether it is to become a task, and why or why not. */
  readonly triage: string | null;
  /** What worksync writes to its vendor about it. */
  readonly writeBack: readonly Pick<NoticeRow, 'kind' | 'state' | 'wanted' | 'error'>[];
}

/** What reconcile knows of an item and would decide now; it writes nothing. */
export async function explainItem(
  query: Scope,
  itemKey: string,
  { sources, rules, now }: { readonly sources: Sources; readonly rules: Rules; readonly now: number },
): Promise<ExplainedItem | undefined> {
  const row = await findItem(query, itemKey);
  if (!row) return undefined;
  const { item } = readFields(row);
  const source = sources.get(row.connection);
  const moment = { now, usedShare: 0, idPrefixes: await taskIdPrefixes(query) };
  const work = source && { query, item, source, sources, rules, moment, cause: { since: now, waiting: [] } };
  const resolved = work ? await lookUp(work) : [];
  const links: ExplainedLink[] = [];
  for (const link of await linksOfItem(query, itemKey)) links.push(await explainLink(query, link));
  return {
    item: itemKey,
    connection: row.connection,
    url: item.url ?? null,
    title: item.title ?? null,
    gone: item.gone ?? false,
    links,
    others: resolved.filter(({ outcome }) => outcome !== 'linked').map(otherOf),
    writeBack: (await noticesOf(query, itemKey)).map(({ kind, state, wanted, error }) => ({
      kind,
      state,
      wanted,
      error,
    })),
    triage: work ? await triageOf(work, item) : `the connection "${row.connection}" is no longer configured`,
  };
}

async function explainLink(query: Scope, row: EntityRow): Promise<ExplainedLink> {
  const change = await findChange(query, row.entity);
  const reason = json<{ reason: LinkReason }>(row.desired)?.reason ?? null;
  const taskId = row.task_id as string;
  const [task] = await tasksByIds(query, [taskId]);
  return {
    task: task?.key ?? taskId,
    name: task ? taskName(task) : taskId,
    taskId,
    state: change ? (change.state === 'pending' ? 'waiting' : change.state) : stateOf(row),
    reason,
    delivery: reason?.delivery === undefined ? null : ((await findDelivery(query, reason.delivery)) ?? null),
    request: requestOf(row),
    error: change?.error ?? null,
  };
}

function stateOf({ hand, known, desired }: EntityRow): ExplainedLink['state'] {
  if (hand === 'removed') return 'removed';
  if (known === null) return desired === null ? 'absent' : 'waiting';
  return hand === 'manual' ? 'manual' : 'linked';
}

function requestOf({ written }: EntityRow): ToldRequest | null {
  return json<ToldRequest & Record<string, unknown>>(written) ?? null;
}

const WHY: Readonly<Record<Resolved['outcome'], string>> = {
  linked: '',
  unknown: 'there is no task and no item of that name',
  taskless: 'that item has no task',
  unworded: 'it lacks the keyword that its tracker needs, or follows a negation',
  document: 'it is a document',
};

function otherOf({ rule, place, text, outcome, via, isFormerName }: Resolved): ExplainedMention {
  return { rule, place, text, outcome, via: via ?? null, isFormerName: isFormerName === true, why: WHY[outcome] };
}

async function triageOf(
  work: Parameters<typeof decideTask>[0] & { readonly source: Source },
  item: Item,
): Promise<string | null> {
  if (item.kind !== 'work_item') return null;
  const { query } = work;
  const row = await findEntity(query, entity.task(item.key));
  if (row?.known != null) {
    const task = row.remote_id === null ? undefined : await taskNameOf(query, row.remote_id);
    const request = requestOf(row);
    const when = request ? ` on ${new Date(request.sentAt).toISOString()}, request ${request.id}` : '';
    return `became ${task ?? 'a task'}${when}`;
  }
  if (!work.rules.triage.isOn) return 'no triage rules are configured';
  const standing = await standingTasks(query, item.key);
  if (standing.length > 0) return 'it has a task already';
  const decision = await decideTask(work, item);
  const change = await findChange(query, entity.task(item.key));
  if (decision.outcome === 'create')
    return `rule ${decision.rule}: is to become ${decision.task.kind === 'bug' ? 'a bug' : 'an idea'}${change ? ` (${change.state}${change.error ? `: ${change.error}` : ''})` : ', once it changes again'}`;
  return decision.outcome === 'nothing' ? decision.why : decision.why.join('; ');
}
