import { itemLinesIn } from '../model/task.ts';
import { keep, type Shape } from '../platform/lib/shape.ts';
import { readBody } from './answer.ts';
import { ROUTES, type RouteName } from './contract.ts';

/**
 * Reads the body of a success that is too large for the main thread, as `readLargeAnswer` does, in another thread. The caller
 * must not use the bytes afterwards. Throws `answer_malformed`, `over_budget`.
 */
export type ReadLarge = (route: RouteName, body: Buffer) => Promise<unknown>;

/** The fields that the daemon reads of the one list without pages. All other answers are read completely. */
const READ: Readonly<Partial<Record<RouteName, Shape>>> = {
  listTasks: {
    tasks: {
      ...{ taskId: true, key: true, title: true, status: true },
      ...{ workspaceId: true, source: true, createdAt: true, updatedAt: true },
      ...{ description: true, reporterUserId: true },
    },
    ...{ nextCursor: true, isLast: true, unreadable: true },
  },
};

/** Pure. Returns the body as the contract has it, without fields that no code reads. Throws `answer_malformed`. */
export function readLargeAnswer(route: RouteName, body: Uint8Array): unknown {
  const content = readBody(ROUTES[route], body);
  const shape = READ[route];
  const kept = shape === undefined ? content : keep(content, shape);
  return route === 'listTasks' ? withoutTexts(kept as TaskList) : kept;
}

interface TaskList {
  readonly tasks: readonly { readonly description?: unknown }[];
}

/** Keeps the one line of a description that names the item for which the task was made. */
function withoutTexts(list: TaskList): TaskList {
  const tasks = list.tasks.map((task) =>
    typeof task.description === 'string' ? { ...task, description: itemLinesIn(task.description) } : task,
  );
  return { ...list, tasks };
}
