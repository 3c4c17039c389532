import { entity } from '../../model/change.ts';
import { type Item, type LinkReason, movedToOf } from '../../model/item.ts';
import { type Task, taskName } from '../../model/task.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { type EntityRow, findEntity, linksOfItem } from '../../store/changes/entities.ts';
import { findChange } from '../../store/changes/outbox-rows.ts';
import { type DeliverySummary, findDelivery } from '../../store/deliveries/inbox.ts';
import { findItem, readFields } from '../../store/items/items.ts';
import { noticesOf } from '../../store/items/notices.ts';
import { taskIdPrefixes, taskNameOf, tasksByIds } from '../../store/tasks/stored-tasks.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import type { Evaluation, ReconcileConnection, ReconcileConnections, Rules } from './context.ts';
import { decideTriage } from './evaluate.ts';
import { tasksOfItem } from './evaluate-links.ts';
import { MAX_NAMES } from './link-rules/link-rules.ts';
import { nameOf } from './link-rules/lookup-names.ts';
import { type Resolved, resolveReadOnly } from './resolve.ts';

/** The last answered request of worksync for a link or a task. */
interface AnsweredRequest {
  readonly action: string;
  /** Epoch milliseconds. */
  readonly sentAt: number;
  readonly answeredAt: number;
  /** The answer is in the inbox as `answer:<id>`. */
  readonly id: string;
}

interface ExplainedLink {
  /** Key of the task, or its id if it has no key. */
  readonly task: string;
  /** Name of the task for people: see `taskName`. */
  readonly name: string;
  readonly taskId: string;
  /**
   * linked   the link exists, and worksync made it, or found it when it was desired.
   * manual   the link exists, and a person made it: it is never removed.
   * removed  a person removed the link: it is not added again while the text still names the task.
   * waiting, sending, held, unknown  the state of the change that adds or removes the link.
   * withdrawn  the link is desired, but nothing sends it: `error` has the reason.
   * absent   no mention requires the link.
   */
  readonly state: 'linked' | 'manual' | 'removed' | 'waiting' | 'sending' | 'held' | 'unknown' | 'withdrawn' | 'absent';
  readonly reason: LinkReason | null;
  readonly delivery: NonNullable<DeliverySummary> | null;
  readonly request: AnsweredRequest | null;
  /** The reason why the change is held, failed last, or is not sent. */
  readonly error: string | null;
}

/** A mention that leads to no link. */
interface ExplainedMention extends Pick<Resolved, 'rule' | 'place' | 'text'> {
  /** `left-out`: the item names too many. */
  readonly outcome: Resolved['outcome'] | 'left-out';
  readonly via: string | null;
  /** The mention uses a former name of that item. */
  readonly isFormerName: boolean;
  readonly why: string;
}

export type ExplainedItem = NonNullable<Awaited<ReturnType<typeof explainItem>>>;

interface ExplainContext {
  readonly sources: ReconcileConnections;
  readonly rules: Rules;
  readonly now: number;
  /** Only what the item has to do with this task. Absent: all of it. */
  readonly task?: Pick<Task, 'taskId' | 'key'> | undefined;
}

/** Returns the stored state of an item and the decisions that reconcile would make now. Writes nothing. */
export async function explainItem(query: Scope, itemKey: string, { sources, rules, now, task }: ExplainContext) {
  const row = await findItem(query, itemKey);
  if (!row) return undefined;
  const { item } = readFields(row);
  const connection = sources.get(row.connection);
  const idPrefixes = await taskIdPrefixes(query);
  const cause = { since: now, waiting: [] };
  const evaluation = connection && { query, item, connection, cause, now, usedShare: 0, idPrefixes, rules, sources };
  const links: ExplainedLink[] = [];
  const whyNotSent = item.gone
    ? 'the item is gone at its vendor'
    : connection
      ? 'its change was dropped; it comes back with the next change of the item'
      : 'the connection of the item is no longer configured';
  for (const link of await linksOfItem(query, itemKey))
    if (task === undefined || link.task_id === task.taskId) links.push(await explainLink(query, link, whyNotSent));
  const head = {
    item: itemKey,
    connection: row.connection,
    url: item.url ?? null,
    title: item.title ?? null,
    gone: item.gone ?? false,
    /** The place outside the scope that a work item was moved to, or the key of the item in which it goes on. */
    movedTo: movedToOf(item) ?? null,
    links,
  };
  const leftOut = evaluation ? explainLeftOut(evaluation, task) : [];
  if (task) return { ...head, others: leftOut, triage: null, writeBack: [], notWritten: null };
  const resolved = evaluation ? await resolveReadOnly(evaluation) : [];
  const notices = await noticesOf(query, itemKey);
  return {
    ...head,
    others: [...resolved.filter(({ outcome }) => outcome !== 'linked').map(explainMention), ...leftOut],
    /** The notices that worksync writes to the vendor. */
    writeBack: notices.map(({ kind, state, wanted, error }) => ({ kind, state, wanted, error })),
    /** Why worksync writes nothing about the item to the vendor. Null: it may write, or the scope is not the reason. */
    notWritten: explainNotWritten(item, connection),
    /** For a work item: whether it becomes a task, and the reason. */
    triage: evaluation ? await explainTriage(evaluation) : `the connection "${row.connection}" is no longer configured`,
  };
}

function explainNotWritten(item: Item, connection: ReconcileConnection | undefined): string | null {
  const { comment, close, status } = connection?.writeBack ?? {};
  if (!(comment || close || status) || connection?.covers?.(item) !== false) return null;
  return 'nothing is written: the item is outside the scope of its connection';
}

/** Explains the names of an item beyond the limit, in one entry. @param task only if it is one of them */
function explainLeftOut(
  { item, connection, rules, idPrefixes }: Evaluation,
  task: ExplainContext['task'],
): ExplainedMention[] {
  const leftOut = rules.links.leftOutOf(item, connection, idPrefixes);
  if (leftOut === undefined) return [];
  const { names, ...first } = leftOut;
  if (task && !names.has(task.key) && !names.has(nameOf.taskId(task.taskId))) return [];
  const others = task || names.size === 1 ? '' : `, and ${counted(names.size - 1, 'name')} after it`;
  const why = `left out${others}: worksync reads ${MAX_NAMES} names of tasks and ${MAX_NAMES} of items from one item`;
  const text = task?.key ?? first.text;
  return [{ ...first, text, outcome: 'left-out', via: null, isFormerName: false, why }];
}

async function explainLink(query: Scope, row: EntityRow, whyNotSent: string): Promise<ExplainedLink> {
  const change = await findChange(query, row.entity);
  const reason = json<{ reason: LinkReason }>(row.desired)?.reason ?? null;
  const taskId = row.task_id as string;
  const [task] = await tasksByIds(query, [taskId]);
  const state = change ? (change.state === 'pending' ? 'waiting' : change.state) : stateOf(row);
  return {
    task: task?.key ?? taskId,
    name: task ? taskName(task) : taskId,
    taskId,
    state,
    reason,
    delivery: reason?.delivery === undefined ? null : ((await findDelivery(query, reason.delivery)) ?? null),
    request: requestOf(row),
    error: state === 'withdrawn' ? whyNotSent : (change?.error ?? null),
  };
}

function stateOf({ hand, known, desired }: EntityRow): ExplainedLink['state'] {
  if (hand === 'removed') return 'removed';
  if (known === null) return desired === null ? 'absent' : 'withdrawn';
  return hand === 'manual' ? 'manual' : 'linked';
}

function requestOf({ written }: EntityRow): AnsweredRequest | null {
  return json<AnsweredRequest & Record<string, unknown>>(written) ?? null;
}

/** The reasons why a mention leads to no link, by its outcome. */
const UNLINKED: Readonly<Record<Resolved['outcome'], string>> = {
  linked: '',
  unknown: 'there is no task and no item of that name',
  taskless: 'that item has no task',
  unworded: 'it lacks the keyword that its tracker needs, or follows a negation',
  document: 'it is a document',
};

function explainMention({ rule, place, text, outcome, via, isFormerName }: Resolved): ExplainedMention {
  return { rule, place, text, outcome, via: via ?? null, isFormerName: isFormerName === true, why: UNLINKED[outcome] };
}

async function explainTriage(evaluation: Evaluation): Promise<string | null> {
  const { query, item, rules } = evaluation;
  if (item.kind !== 'work_item') return null;
  const row = await findEntity(query, entity.task(item.key));
  if (row?.known != null) {
    const task = row.remote_id === null ? undefined : await taskNameOf(query, row.remote_id);
    const request = requestOf(row);
    const when = request ? ` on ${new Date(request.sentAt).toISOString()}, request ${request.id}` : '';
    return `became ${task ?? 'a task'}${when}`;
  }
  if (!rules.triage.isOn) return 'no triage rules are configured';
  const taskIds = await tasksOfItem(query, item.key);
  if (taskIds.length > 0) return 'it has a task already';
  const decision = await decideTriage(evaluation, item);
  if (decision.outcome === 'nothing') return decision.why;
  if (decision.outcome === 'no rule') return decision.why.join('; ');
  const change = await findChange(query, entity.task(item.key));
  const kind = decision.task.kind === 'bug' ? 'a bug' : 'an idea';
  const error = change?.error ? `: ${change.error}` : '';
  const progress = change ? ` (${change.state}${error})` : ', once it changes again';
  return `rule ${decision.rule}: is to become ${kind}${progress}`;
}
