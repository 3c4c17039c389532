import { entity } from '../../../src/model/change.ts';
import type { DeliveryOrigin } from '../../../src/model/delivery.ts';
import type { Item, PullRequest, WorkItem } from '../../../src/model/item.ts';
import type { TaskUpdate } from '../../../src/model/task.ts';
import type { WrittenStatus } from '../../../src/model/written-task.ts';
import { type Clock, systemRandom } from '../../../src/platform/lib/clock.ts';
import { type EntityRow, findEntities, linkedItems } from '../../../src/store/changes/entities.ts';
import { type StoredBody, unpackBody } from '../../../src/store/deliveries/inbox.ts';
import { readTaskUpdateFacts, type UpdateForm, unfinishedTasksOf } from '../../../src/store/tasks/stored-tasks.ts';
import { enqueueTaskListRead, readAnswer } from '../../../src/store/workspace/workspace-reads.ts';
import { json } from '../../../src/store/workspace-scope.ts';
import type { ChangeScheduler } from '../../../src/sync/outbox/claim.ts';
import { prepareNext } from '../../../src/sync/outbox/claim.ts';
import { recover } from '../../../src/sync/outbox/outbox.ts';
import { createSender } from '../../../src/sync/outbox/sender.ts';
import type { Slot } from '../../../src/sync/quota/slot.ts';
import { applyBatch } from '../../../src/sync/reconcile/apply-batch.ts';
import { createRules, type Rules, type RulesInput } from '../../../src/sync/reconcile/context.ts';
import { createBatchContexts } from '../../../src/sync/reconcile/process.ts';
import { createReevaluation } from '../../../src/sync/reconcile/reconcile.ts';
import type { Translated } from '../../../src/sync/reconcile/translate-deliveries.ts';
import {
  decideTask,
  loadTask,
  releaseTaskStatus,
  type TaskEvaluation,
} from '../../../src/sync/reconcile/workflow/evaluate-task.ts';
import { type ExplainedTask, explainTask } from '../../../src/sync/reconcile/workflow/explain-task.ts';
import type { WorkflowInput } from '../../../src/sync/reconcile/workflow/workflow-rules.ts';
import type { WorkspaceContext } from '../../../src/sync/workspace-context.ts';
import { answered, batchContext, SOURCES, START, saidOf } from '../rows/batches.ts';
import { pull, workItem } from '../rows/items.ts';
import { openTestStore } from './intake.ts';
import { workspaceContext } from './workspace-context.ts';

/** The rules of the preset, in a private repository unless an item says otherwise. */
const STANDARD: WorkflowInput = { preset: 'standard', rules: [], several: 'all', bots: 'names', since: 0 };

export interface BoardOptions {
  readonly workflow?: Partial<WorkflowInput>;
  readonly tasks?: Readonly<Record<string, string>>;
  readonly rules?: Partial<RulesInput>;
  /** The body that the route for updates takes. Absent: `fields`. */
  readonly form?: UpdateForm;
  /** Absent: `none`. */
  readonly webhooks?: Webhooks;
}

/** Draws whether the process ends during the update of a task. */
export type KillOf = (key: string) => Kill | undefined;

/** The process ends after it has claimed the update of a task, and another one starts on the same store. */
export interface Kill {
  /** The workspace has carried the update out. */
  readonly isCarriedOut: boolean;
  /** A webhook of the workspace reports the new status before the update is tried again. */
  readonly isReported: boolean;
}

/** An update that the workspace has carried out and not answered. */
export interface Request {
  readonly key: string;
  answer(): Promise<void>;
}

export interface Report {
  /** The task that it reports; absent for a list of all tasks. */
  readonly key?: string;
  readonly translated: Translated;
}

/** The content of webhooks of the workspace: there are none, or they contain the task, or the task without its time. */
export type Webhooks = 'none' | 'whole' | 'timeless';

const at = (seconds: number): number => START + seconds * 1_000;
export const time = (seconds: number): string => new Date(at(seconds)).toISOString();

/** The quota is not limited. */
const SLOT: Slot = { record: async () => {}, release() {}, leave() {}, complete: async () => {} };
const SLOTS = {
  acquire: async () => SLOT,
  usedShare: () => 0,
  paces: () => [],
  isHalted: () => false,
  isPaused: () => false,
};

export type Board = Awaited<ReturnType<typeof openBoard>>;

/** A workspace with tasks, to which providers and people report changes. Times are seconds after the start. */
export async function openBoard({
  workflow,
  tasks = { 'BUG-1': 'open' },
  rules,
  form = 'fields',
  webhooks = 'none',
}: BoardOptions = {}) {
  const store = await openTestStore();
  const compile = (own: Partial<WorkflowInput> | undefined, digest: string): Rules =>
    createRules({
      ...{ trailers: ['Task'], links: [], users: {}, grammars: [], documents: false, triage: [] },
      addresses: ['https://app.example.com/workspace'],
      workflow: own && { ...STANDARD, ...own },
      ...{ ...rules, digest },
    });
  let compiled = compile(workflow ?? {}, 'first');
  const items = new Map<string, Item>();
  const statuses = new Map(Object.entries(tasks));
  const labels = new Map<string, readonly string[]>();
  const changedAt = new Map<string, string>();
  const written = new Map<string, number>();
  const reports: Report[] = [];
  /** Ends the requests that the workspace has carried out and must not answer yet, by the keys of their tasks. */
  const waiting = new Map<string, PromiseWithResolvers<void>>();
  let now = 0;
  const clock: Clock = { now: () => at(now), monotonic: () => at(now), bootId: 'board', after: () => () => {} };

  const take = (translated: Parameters<typeof applyBatch>[1]) =>
    store.commit((query) => applyBatch(query, translated, batchContext(at(now), { rules: compiled })));
  const taskOf = (key: string) => ({
    ...{ taskId: idOf(key), key, title: key, status: statuses.get(key) as string, source: 'api', kind: 'bug' },
    ...{ labels: labels.get(key) ?? [], updatedAt: changedAt.get(key) ?? time(0) },
  });
  const event = (key: string): Translated => {
    const { updatedAt, ...timeless } = taskOf(key);
    return answered('saw-task', webhooks === 'timeless' ? timeless : { ...timeless, updatedAt }, { seconds: now });
  };
  await take([...statuses.keys()].map((key) => answered('saw-task', taskOf(key))));
  await reevaluate();

  /** Evaluates all items by the present rules, which are in force from now on. */
  async function reevaluate(): Promise<void> {
    const parts = workspaceContext({ store, clock, rules: compiled, sources: SOURCES });
    const reevaluation = createReevaluation(parts, createBatchContexts(parts));
    await reevaluation.reevaluate(new AbortController().signal);
  }

  function change(
    key: string,
    { status, labels: some }: { readonly status?: string; readonly labels?: readonly string[] },
  ) {
    if (status !== undefined) statuses.set(key, status);
    if (some !== undefined) labels.set(key, some);
    changedAt.set(key, time(now));
    if (webhooks !== 'none') reports.push({ key, translated: event(key) });
  }

  const outboxClient = {
    async getTask({ taskId }: { readonly taskId: string }) {
      const task = taskOf(keyOf(taskId));
      return { status: 200, headers: {}, body: task, raw: task };
    },
    async updateTask({ taskId, body }: { readonly taskId: string; readonly body: object }) {
      const key = keyOf(taskId);
      const before = statuses.get(key);
      change(key, body);
      if (statuses.get(key) !== before) written.set(key, (written.get(key) ?? 0) + 1);
      const task = taskOf(key);
      await waiting.get(key)?.promise;
      return { status: 200, headers: {}, body: task, raw: task };
    },
    async listTasks() {
      return { status: 200, headers: {}, body: { tasks: [...statuses.keys()].map(taskOf) } };
    },
  } as unknown as WorkspaceContext['outboxClient'];
  const settings = { api: { taskUpdate: form }, statuses: workflow?.statuses ?? {}, webhook: {} as never };
  const outbox = workspaceContext(
    { store, throttle: SLOTS as unknown as WorkspaceContext['throttle'], outboxClient, clock },
    { workspace: settings },
  );
  const scheduler = { mayWrite: () => true } as ChangeScheduler;
  const sendAndSettle = createSender(outbox, scheduler, new AbortController().signal);

  const claim = (name: string) => store.commit((query) => prepareNext(query, { now: at(now), onlyReads: true }, name));

  async function dueKeys(): Promise<string[]> {
    const changes = await store.query
      .selectFrom('outbox')
      .select('entity')
      .where('kind', '=', 'task_update')
      .where('state', '=', 'pending')
      .execute();
    const rows = await findEntities(
      store.query,
      changes.map((each) => each.entity),
    );
    const isDue = ({ desired }: EntityRow) => (json<TaskUpdate>(desired)?.notBefore ?? 0) <= at(now);
    return rows.filter(isDue).map(({ task_id }) => keyOf(task_id as string));
  }

  async function collectAnswers(): Promise<void> {
    const rows = await store.query
      .selectFrom('inbox')
      .selectAll()
      .where('state', '=', 'pending')
      .orderBy('id')
      .execute();
    await store.query.deleteFrom('inbox').where('state', '=', 'pending').execute();
    for (const row of rows) {
      const answer = readAnswer(unpackBody(row as StoredBody));
      const { action, entity: name, ...more } = answer;
      const key =
        name.startsWith('update:') || name.startsWith('read:task:')
          ? keyOf(name.split(':').at(-1) as string)
          : undefined;
      const translated = answered(action, answer.body, { entity: name, answer: more });
      reports.push({ ...(key !== undefined && { key }), translated });
    }
  }

  async function sendReads(): Promise<void> {
    const reads = await store.query
      .selectFrom('outbox')
      .select('entity')
      .where('entity', 'like', 'read:task%')
      .where('state', '=', 'pending')
      .where('due', '<=', at(now))
      .execute();
    for (const { entity: name } of reads) {
      const read = await claim(name);
      if (read) await sendAndSettle(read, SLOT);
    }
  }

  /** worksync processes some of the reports in one batch. */
  async function process(some: readonly Report[], seconds: number): Promise<void> {
    now = Math.max(now, seconds);
    for (const report of some) reports.splice(reports.indexOf(report), 1);
    await take(some.map(({ translated }) => translated));
    await collectAnswers();
  }

  /** Several items are reported at once, as the provider has them. */
  async function deliver(reported: readonly Item[], seconds: number, by?: DeliveryOrigin): Promise<void> {
    now = Math.max(now, seconds);
    for (const item of reported) items.set(item.key, item);
    const received = reported.map((item) => saidOf(item, by));
    await take(received.map((each) => ({ ...each, delivery: { ...each.delivery, receivedAt: at(now) } })));
  }

  async function kill(key: string, { isCarriedOut, isReported }: Kill): Promise<undefined> {
    const prepared = await claim(entity.taskUpdate(idOf(key)));
    if (prepared === undefined) return undefined;
    const { status, from } = prepared.body as unknown as TaskUpdate;
    const isMove = status !== undefined && [from, status].includes(statuses.get(key) ?? '');
    if (isMove && isCarriedOut) change(key, { status });
    await store.commit((query) => recover(query, { now: at(now), random: systemRandom(), usedShare: 0 }));
    await collectAnswers();
    if (isReported) await take([event(key)]);
    return undefined;
  }

  /** Sends the updates of these tasks that are due, and the reads. What the workspace reports waits in `reports`. */
  async function sendOnly(keys: readonly string[], seconds: number, killOf?: KillOf): Promise<void> {
    now = Math.max(now, seconds);
    for (const key of (await dueKeys()).filter((each) => keys.includes(each))) {
      const drawn = killOf?.(key);
      const prepared = drawn ? await kill(key, drawn) : await claim(entity.taskUpdate(idOf(key)));
      if (prepared) await sendAndSettle(prepared, SLOT);
      // A final status would wait for a pending delivery.
      await collectAnswers();
    }
    await sendReads();
    await collectAnswers();
  }

  return {
    /** The provider reports a pull request of this number, with these fields since the last report. */
    async pull(number: number, seconds: number, fields: Partial<PullRequest> = {}, by?: DeliveryOrigin) {
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
    async issue(number: number, seconds: number, fields: Partial<WorkItem> = {}) {
      const key = `jira:cloud-1:issue:${number}`;
      const before = (items.get(key) as WorkItem | undefined) ?? { createdAt: time(seconds), title: `Issue ${number}` };
      const own = { key, identifier: `ENG-${number}`, url: `https://jira.example.com/browse/ENG-${number}` };
      const closed = fields.state === 'done' ? { closedAt: time(seconds) } : {};
      await deliver([workItem({ ...before, ...own, updatedAt: at(seconds), ...closed, ...fields })], seconds);
    },
    async person(key: string, seconds: number, status: string) {
      now = Math.max(now, seconds);
      statuses.set(key, status);
      changedAt.set(key, time(now));
      await take([event(key)]);
    },
    deliver,
    async label(key: string, seconds: number, some: readonly string[]) {
      now = Math.max(now, seconds);
      labels.set(key, some);
      changedAt.set(key, time(now));
      await take([event(key)]);
    },
    /** The rules for task states are other ones from now on; undefined: there are none. */
    async configure(seconds: number, own: Partial<WorkflowInput> | undefined) {
      now = Math.max(now, seconds);
      compiled = compile(own, `since ${now}`);
      await reevaluate();
    },
    /** An older database is restored: no item is confirmed. */
    async restore(seconds: number) {
      now = Math.max(now, seconds);
      await store.query.updateTable('items').set({ unverified: 1 }).execute();
      await store.query.deleteFrom('outbox').execute();
    },
    async send(seconds: number, killOf?: KillOf) {
      await sendOnly([...statuses.keys()], seconds, killOf);
      await process([...reports], seconds);
    },
    sendOnly,
    /** Sends the update of a task if it is due. The workspace carries it out, and `Request.answer` ends it. */
    async begin(key: string, seconds: number): Promise<Request | undefined> {
      now = Math.max(now, seconds);
      const isDue = (await dueKeys()).includes(key);
      const prepared = isDue ? await claim(entity.taskUpdate(idOf(key))) : undefined;
      if (prepared === undefined) return undefined;
      const isAnswered = Promise.withResolvers<void>();
      waiting.set(key, isAnswered);
      const sent = sendAndSettle(prepared, SLOT);
      return {
        key,
        async answer() {
          isAnswered.resolve();
          waiting.delete(key);
          await sent;
          await collectAnswers();
        },
      };
    },
    async list(seconds: number) {
      now = Math.max(now, seconds);
      await store.commit((query) =>
        enqueueTaskListRead(query, { now: at(now), usedShare: 0, lane: 'interactive', notBefore: 0 }),
      );
      await sendReads();
      await collectAnswers();
    },
    /** Answers and webhooks of the workspace that worksync has not processed. Each may be processed at any time, or never. */
    reports,
    process,
    status: (key: string) => statuses.get(key),
    writes: (key: string) => written.get(key) ?? 0,
    labels: (key: string) => labels.get(key) ?? [],
    async decide(key: string): Promise<TaskEvaluation> {
      const facts = await loadTask(store.query, compiled.workflow, idOf(key), at(now));
      if (facts === undefined) throw new Error('the task is not cached');
      const written = json<WrittenStatus>(facts.row.known) ?? {};
      const evaluation = await decideTask(store.query, compiled.workflow, { ...facts, written });
      if (evaluation === undefined) throw new Error('an item is unverified');
      return evaluation;
    },
    async explain(key: string): Promise<ExplainedTask> {
      const explained = await explainTask(store.query, idOf(key), compiled, at(now));
      if (explained === undefined) throw new Error('the task is not cached');
      return explained;
    },
    /** A person lets the rules decide about the status. */
    async release(key: string) {
      const taskId = idOf(key);
      await store.commit((query) => releaseTaskStatus(query, compiled.workflow, taskId, at(now)));
      const keys = await linkedItems(store.query, [taskId]);
      await store.commit((query) =>
        applyBatch(query, [], batchContext(at(now), { rules: compiled }), { items: keys, tasks: [] }),
      );
    },
    /** How many statuses others changed back in the last day. */
    contests: async () => (await readTaskUpdateFacts(store.query)).contested?.length ?? 0,
    unfinished: async (): Promise<Readonly<Record<string, number>>> =>
      (await unfinishedTasksOf(store.query.whole, [store.query.workspace]))(store.query.workspace),
  };
}

function idOf(key: string): string {
  return `tsk_${key}`;
}

function keyOf(taskId: string): string {
  return taskId.slice('tsk_'.length);
}
