import { entity } from '../../../src/model/change.ts';
import type { DeliveryOrigin } from '../../../src/model/delivery.ts';
import type { Item, PullRequest, WorkItem } from '../../../src/model/item.ts';
import type { TaskUpdate } from '../../../src/model/task.ts';
import { afterUpdate, type WrittenStatus } from '../../../src/model/written-status.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { tasksByIds } from '../../../src/store/cached-tasks.ts';
import { findEntity, json, linkedItems, saveEntity } from '../../../src/store/entities.ts';
import { findChange, removeChange } from '../../../src/store/outbox-rows.ts';
import { readTaskUpdateFacts } from '../../../src/store/task-update-facts.ts';
import { unfinishedTasksOf } from '../../../src/store/unfinished-tasks.ts';
import { beginUnitOfWork, flushRows } from '../../../src/store/unit-of-work/unit-of-work.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { prepareNext } from '../../../src/sync/outbox/claim.ts';
import { recover } from '../../../src/sync/outbox/recovery.ts';
import { settle } from '../../../src/sync/outbox/settle.ts';
import { arrivedOf, isBasedOn } from '../../../src/sync/outbox/task-update-body.ts';
import { applyBatch } from '../../../src/sync/reconcile/apply-batch.ts';
import { createRules, type Rules, type RulesInput } from '../../../src/sync/reconcile/context.ts';
import {
  decideTask,
  inOwnWords,
  releaseTaskStatus,
  type TaskEvaluation,
} from '../../../src/sync/reconcile/workflow/evaluate-task.ts';
import { type ExplainedTask, explainTask } from '../../../src/sync/reconcile/workflow/explain-task.ts';
import type { WorkflowInput } from '../../../src/sync/reconcile/workflow/workflow-rules.ts';
import { answered, batchContext, START, saidOf } from '../rows/batches.ts';
import { pull, workItem } from '../rows/items.ts';
import { openTestStore } from './intake.ts';

/** The rules of the preset, in a private repository unless an item says otherwise. */
const STANDARD: WorkflowInput = { preset: 'standard', rules: [], several: 'all', bots: 'names', since: 0 };

export interface BoardOptions {
  readonly workflow?: Partial<WorkflowInput>;
  /** Statuses of the tasks at the start, by their keys. */
  readonly tasks?: Readonly<Record<string, string>>;
  readonly rules?: Partial<RulesInput>;
}

/** A workspace with tasks, to which providers and people report changes. Times are seconds after the start. */
export interface Board {
  /** The provider reports a pull request of this number, with these fields since the last report. */
  pull(number: number, at: number, fields?: Partial<PullRequest>, by?: DeliveryOrigin): Promise<void>;
  issue(number: number, at: number, fields?: Partial<WorkItem>): Promise<void>;
  /** Several items are reported at once, as the provider has them. */
  deliver(items: readonly Item[], at: number, by?: DeliveryOrigin): Promise<void>;
  /** A person sets the status of a task. */
  person(key: string, at: number, status: string): Promise<void>;
  /** Sends what is due, as the outbox does. `killOf` draws the updates during which the process ends. */
  send(at: number, killOf?: (key: string) => Kill | undefined): Promise<void>;
  /** The status of a task in the workspace. */
  status(key: string): string | undefined;
  /** How often worksync wrote the status. */
  writes(key: string): number;
  labels(key: string): readonly string[];
  decide(key: string): Promise<TaskEvaluation>;
  explain(key: string): Promise<ExplainedTask>;
  /** A person lets the rules decide about the status. */
  release(key: string): Promise<void>;
  /** How many statuses others changed back in the last day. */
  contests(): Promise<number>;
  /** Unfinished tasks with merged work, by reason. */
  unfinished(): Promise<Readonly<Record<string, number>>>;
}

/** The process ends after it has claimed the update of a task, and another one starts on the same store. */
export interface Kill {
  /** The workspace has carried the update out. */
  readonly isCarriedOut: boolean;
  /** A webhook of the workspace reports the new status before the update is tried again. */
  readonly isReported: boolean;
}

const at = (seconds: number): number => START + seconds * 1_000;
export const time = (seconds: number): string => new Date(at(seconds)).toISOString();

export async function openBoard({ workflow, tasks = { 'BUG-1': 'open' }, rules }: BoardOptions = {}): Promise<Board> {
  const store = await openTestStore();
  const compiled: Rules = createRules({
    ...{ trailers: ['Task'], links: [], users: {}, grammars: [], documents: false, triage: [] },
    addresses: ['https://app.example.com/workspace'],
    workflow: { ...STANDARD, ...workflow },
    ...rules,
  });
  const items = new Map<string, Item>();
  const statuses = new Map(Object.entries(tasks));
  const labels = new Map<string, readonly string[]>();
  const written = new Map<string, number>();
  let now = 0;

  const take = (translated: Parameters<typeof applyBatch>[1]) =>
    store.commit((query) => applyBatch(query, translated, batchContext(at(now), { rules: compiled })));
  const taskOf = (key: string) => ({
    ...{ taskId: idOf(key), key, title: key, status: statuses.get(key) as string, source: 'api', kind: 'bug' },
    updatedAt: time(now),
  });
  const report = (action: 'saw-task' | 'update-task', keys: readonly string[]) =>
    take(keys.map((key) => answered(action, taskOf(key), { entity: entity.taskUpdate(idOf(key)), seconds: now })));
  await report('saw-task', [...statuses.keys()]);

  async function deliver(reported: readonly Item[], seconds: number, by?: DeliveryOrigin): Promise<void> {
    now = Math.max(now, seconds);
    for (const item of reported) items.set(item.key, item);
    const received = reported.map((item) => saidOf(item, by));
    await take(received.map((each) => ({ ...each, delivery: { ...each.delivery, receivedAt: at(now) } })));
  }

  /** Settles a change as the outbox does after a read and an update. Returns whether it was sent. */
  async function settleUpdate(query: Scope, key: string): Promise<boolean> {
    const name = entity.taskUpdate(idOf(key));
    const change = await findChange(query, name);
    const row = await findEntity(query, name);
    const update = json<TaskUpdate>(row?.desired ?? null);
    if (!row || !update || change?.state !== 'pending' || (update.notBefore ?? 0) > at(now)) return false;
    await removeChange(query, name);
    if (update.from !== statuses.get(key)) return true;
    const known = afterUpdate(json<WrittenStatus>(row.known) ?? {}, update, at(now));
    await saveEntity(query, { ...row, desired: null, known: JSON.stringify(known) });
    if (update.status !== undefined) {
      statuses.set(key, update.status);
      written.set(key, (written.get(key) ?? 0) + 1);
    }
    const kept = (labels.get(key) ?? []).filter((label) => !update.removeLabels?.includes(label));
    labels.set(key, [...kept, ...(update.addLabels ?? [])]);
    return true;
  }

  const claim = (key: string) =>
    store.commit((query) => prepareNext(query, { now: at(now), onlyReads: false }, entity.taskUpdate(idOf(key))));

  async function isDue(key: string): Promise<boolean> {
    const name = entity.taskUpdate(idOf(key));
    const update = json<TaskUpdate>((await findEntity(store.query, name))?.desired ?? null);
    const isPending = (await findChange(store.query, name))?.state === 'pending';
    return isPending && update !== undefined && (update.notBefore ?? 0) <= at(now);
  }

  /** Ends the process during the update of a task. The next one finds it in flight. */
  async function kill(key: string, { isCarriedOut, isReported }: Kill): Promise<void> {
    const prepared = await claim(key);
    if (prepared === undefined) return;
    const update = prepared.body as unknown as TaskUpdate;
    const isMove = update.status !== undefined && [update.from, update.status].includes(statuses.get(key) ?? '');
    if (isMove && isCarriedOut) statuses.set(key, update.status as string);
    await store.commit((query) => recover(query, { now: at(now), random: systemRandom(), usedShare: 0 }));
    if (isReported) await report('saw-task', [key]);
  }

  /** Tries an update of unknown outcome again: the task is read first, as in `TaskUpdater`. */
  async function tryAgain(key: string): Promise<void> {
    const prepared = await claim(key);
    if (prepared === undefined) return;
    const update = prepared.body as unknown as TaskUpdate;
    const isOutdated = !isBasedOn(update, {}, statuses.get(key) as string);
    const isRead = isOutdated || update.status === statuses.get(key);
    if (!isRead && update.status !== undefined) statuses.set(key, update.status);
    const arrived = isOutdated ? arrivedOf(prepared.attempted, {}, statuses.get(key) as string) : undefined;
    const sent = isRead ? ({ ...prepared, action: 'read-task', isOutdated, arrived } as const) : prepared;
    await store.commit(async (query) => {
      await settle(query, sent, taskOf(key), { now: at(now), random: systemRandom(), usedShare: 0 });
      // The answer is applied below.
      await query.deleteFrom('inbox').execute();
    });
    await report(isRead ? 'saw-task' : 'update-task', [key]);
  }

  return {
    async pull(number, seconds, fields = {}, by) {
      const key = `github:github.com:5001:pull:${number}`;
      const before = (items.get(key) as PullRequest | undefined) ?? {
        ...{ createdAt: time(seconds), title: `Change ${number}`, headBranch: `change-${number}`, isPublic: false },
        ...{ author: 'ann', defaultBranch: 'main', baseBranch: 'main', repoName: 'acme/app' },
      };
      const merged = fields.state === 'merged' && { mergedAt: time(seconds), closedAt: time(seconds) };
      const closed = fields.state === 'closed' && { closedAt: time(seconds) };
      const url = `https://github.com/acme/app/pull/${number}`;
      const own = { key, identifier: String(number), url, updatedAt: at(seconds), ...merged, ...closed };
      await deliver([pull({ ...before, ...own, ...fields })], seconds, by);
    },
    async issue(number, seconds, fields = {}) {
      const key = `jira:cloud-1:issue:${number}`;
      const before = (items.get(key) as WorkItem | undefined) ?? { createdAt: time(seconds), title: `Issue ${number}` };
      const own = { key, identifier: `ENG-${number}`, url: `https://jira.example.com/browse/ENG-${number}` };
      const closed = fields.state === 'done' ? { closedAt: time(seconds) } : {};
      await deliver([workItem({ ...before, ...own, updatedAt: at(seconds), ...closed, ...fields })], seconds);
    },
    async person(key, seconds, status) {
      now = Math.max(now, seconds);
      statuses.set(key, status);
      await report('saw-task', [key]);
    },
    deliver,
    async send(seconds, killOf = () => undefined) {
      now = Math.max(now, seconds);
      for (const key of statuses.keys()) {
        if ((await findChange(store.query, entity.taskUpdate(idOf(key))))?.sent != null) await tryAgain(key);
        const drawn = killOf(key);
        if (drawn && (await isDue(key))) await kill(key, drawn);
      }
      const sent: string[] = [];
      await store.commit(async (transaction) => {
        const query = beginUnitOfWork(transaction);
        for (const key of statuses.keys()) {
          const isOpen = (await findChange(query, entity.taskUpdate(idOf(key))))?.sent != null;
          if (!isOpen && (await settleUpdate(query, key))) sent.push(key);
        }
        await flushRows(query);
      });
      await report('update-task', sent);
    },
    status: (key) => statuses.get(key),
    writes: (key) => written.get(key) ?? 0,
    labels: (key) => labels.get(key) ?? [],
    async decide(key) {
      const [task] = await tasksByIds(store.query, [idOf(key)]);
      const row = await findEntity(store.query, entity.taskUpdate(idOf(key)));
      const known = json<WrittenStatus>(row?.known ?? null) ?? {};
      const input = { task: inOwnWords(task as never, compiled.workflow), written: known, now: at(now) };
      const evaluation = await decideTask(store.query, compiled.workflow, input);
      if (evaluation === undefined) throw new Error('an item is unverified');
      return evaluation;
    },
    async explain(key) {
      const explained = await explainTask(store.query, idOf(key), { ...compiled, now: at(now) });
      if (explained === undefined) throw new Error('the task is not cached');
      return explained;
    },
    async release(key) {
      const taskId = idOf(key);
      await store.commit((query) => releaseTaskStatus(query, compiled.workflow, taskId, at(now)));
      const keys = await linkedItems(store.query, [taskId]);
      await store.commit((query) =>
        applyBatch(query, [], batchContext(at(now), { rules: compiled }), { items: keys, tasks: [] }),
      );
    },
    contests: async () => (await readTaskUpdateFacts(store.query)).contested?.length ?? 0,
    unfinished: async () =>
      (await unfinishedTasksOf(store.query.whole, [store.query.workspace]))(store.query.workspace),
  };
}

function idOf(key: string): string {
  return `tsk_${key}`;
}
