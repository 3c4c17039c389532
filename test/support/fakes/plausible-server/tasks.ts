import type { Clock } from '../../../../src/platform/lib/clock.ts';
import { type Behaviour, type Call, type Fields, isCreation, isSuccess, type Reply, refusal } from './exchange.ts';

const TIMES = ['reportedAt', 'createdAt', 'updatedAt', 'completedAt'];

const without = (fields: Fields, names: readonly string[]): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)));

export const withoutKeys = (): Behaviour => ({ showTask: (task) => without(task, ['key']) });

/** Fields that worksync does not read are null, absent or of another type, and there are further ones. */
export const strangeFields = (): Behaviour => ({
  showTask: (task) => ({
    ...without(task, ['teamIds', 'completedAt']),
    kind: null,
    priority: 3,
    assigneeIds: 'nobody',
    userId: { id: task['userId'] },
    visibility: 'team',
    contributors: [{ userId: task['userId'], type: 'Assignee' }],
    parent: null,
  }),
});

export const numericTimes = (): Behaviour => ({
  showTask(task) {
    const times = TIMES.map((name) => [name, task[name] == null ? null : Date.parse(task[name] as string)]);
    return { ...task, ...Object.fromEntries(times) };
  },
});

export const labelObjects = (): Behaviour => ({
  showTask: (task) => ({
    ...task,
    labels: (task['labels'] as string[]).map((name, at) => ({ taxonomyLabelId: `lbl_${at}`, name })),
  }),
});

export const wrappedTasks = (): Behaviour => ({
  async answer(call, next) {
    const reply = await next(call);
    return isTask(reply.body) ? { ...reply, body: { task: reply.body } } : reply;
  },
});

export const isTask = (body: unknown): body is Fields =>
  typeof body === 'object' && body !== null && 'taskId' in body && !('workItemId' in body);

/** Only of a list that was answered. */
function onTaskList(change: (call: Call, tasks: readonly Fields[]) => unknown): Behaviour {
  return {
    async answer(call, next) {
      const reply = await next(call);
      if (call.route !== 'listTasks' || !isSuccess(reply)) return reply;
      return { ...reply, body: change(call, (reply.body as { tasks: Fields[] }).tasks) };
    },
  };
}

const PAGE = 25;

/** Pages also with `all=true`; the cursor names the last task that was shown. */
export const pagedTasks = (): Behaviour => ({
  async answer(call, next) {
    if (call.route !== 'listTasks') return next(call);
    const query = new URLSearchParams(call.query);
    const [limit, cursor] = [Number(query.get('limit') ?? PAGE), query.get('cursor')];
    for (const name of ['limit', 'cursor']) query.delete(name);
    const all = await everyTask({ ...call, query }, next);
    if (!isSuccess(all)) return all;
    const { tasks } = all.body as { tasks: Fields[] };
    const from = cursor === null ? 0 : tasks.findIndex(({ taskId }) => taskId === cursor) + 1;
    const page = tasks.slice(from, from + Math.min(limit, 100));
    const nextCursor = from + page.length < tasks.length ? page.at(-1)?.['taskId'] : null;
    return { ...all, body: { tasks: page, nextCursor } };
  },
});

async function everyTask(call: Call, next: (call: Call) => Promise<Reply>): Promise<Reply> {
  const tasks: Fields[] = [];
  let query = call.query;
  for (;;) {
    const reply = await next({ ...call, query });
    if (!isSuccess(reply)) return reply;
    const body = reply.body as { tasks: Fields[]; nextCursor: string | null };
    tasks.push(...body.tasks);
    if (body.nextCursor === null) return { ...reply, body: { tasks, nextCursor: null } };
    query = new URLSearchParams(call.query);
    query.set('cursor', body.nextCursor);
  }
}

export const bareTasks = (): Behaviour => onTaskList((_call, tasks) => tasks);

const CLOSED = new Set<unknown>(['completed', 'cancelled', 'merged']);

export const openTasksOnly = (): Behaviour =>
  onTaskList(({ query }, tasks) => ({
    tasks: query.has('status') ? tasks : tasks.filter(({ status }) => !CLOSED.has(status)),
    nextCursor: null,
  }));

const LAG = 30_000;

/** A list shows what was there 30 s ago. A change of a task that no earlier list has shown is not delayed. */
export function laggingTasks({ clock }: { readonly clock: Clock }): Behaviour {
  const versions = new Map<unknown, Fields>();
  const isOld = (time: unknown) => Date.parse(String(time)) <= clock.now() - LAG;
  const shown = (task: Fields) => {
    const known = versions.get(task['taskId']);
    if (known !== undefined && !isOld(task['updatedAt'])) return known;
    versions.set(task['taskId'], task);
    return task;
  };
  return onTaskList((_call, tasks) => ({
    tasks: tasks.filter(({ createdAt }) => isOld(createdAt)).map(shown),
    nextCursor: null,
  }));
}

export const withoutSource = (): Behaviour => ({ showTask: (task) => without(task, ['source']) });

export const constantSource = (): Behaviour => ({ showTask: (task) => ({ ...task, source: 'api' }) });

function onCreation(change: (body: Fields) => Fields): Behaviour {
  return { answer: (call, next) => next(isCreation(call) ? { ...call, body: change(call.body) } : call) };
}

export function refusing(...names: readonly string[]) {
  return (): Behaviour => ({
    async answer(call, next) {
      const name = isCreation(call) ? names.find((each) => call.body[each] !== undefined) : undefined;
      return name === undefined ? next(call) : refusal(400, 'validation_failed', `${name} is not valid`);
    },
  });
}

/** Stores only the first characters of a source, and no more than this many. */
const SOURCE = 64;

export const cutSource = (): Behaviour =>
  onCreation((body) =>
    body['source'] === undefined ? body : { ...body, source: (body['source'] as string).slice(0, SOURCE) },
  );

export const OPTIONAL_FIELDS = ['labels', 'priority', 'assigneeIds'] as const;

export const droppedFields = (): Behaviour => onCreation((body) => without(body, OPTIONAL_FIELDS));

/** Stores only the first characters of a title, and no more than this many. */
const TITLE = 80;

export const trimmedTitle = (): Behaviour =>
  onCreation((body) => ({ ...body, title: String(body['title']).replace(/\s+/g, ' ').trim().slice(0, TITLE).trim() }));

export function creationAnswer(status: number, hasBody: boolean) {
  return (): Behaviour => ({
    async answer(call, next) {
      const reply = await next(call);
      if (!isCreation(call) || !isSuccess(reply)) return reply;
      return { status, headers: reply.headers, ...(hasBody && { body: reply.body }) };
    },
  });
}

export const noSingleTask = (): Behaviour => ({
  async answer(call, next) {
    if (call.route !== 'getTask' && call.route !== 'updateTask') return next(call);
    return refusal(404, 'not_found', 'address not found');
  },
});

/** Values of the fields that an update of a whole task does not name. */
const CLEARED = { description: null, priority: 'none', teamIds: [], assigneeIds: [], labels: [] };

/** An update replaces the whole task. */
export const wholeUpdates = (): Behaviour => ({
  async answer(call, next) {
    if (call.route !== 'updateTask') return next(call);
    if (call.body['title'] === undefined) return refusal(400, 'validation_failed', 'title is required');
    return next({ ...call, body: { ...CLEARED, ...call.body } });
  },
});

export function updatesBy(...methods: readonly string[]) {
  return (): Behaviour => ({
    async answer(call, next) {
      if (call.route !== 'updateTask' || methods.includes(call.method)) return next(call);
      return refusal(405, 'method_not_allowed', 'this address takes other methods');
    },
  });
}
