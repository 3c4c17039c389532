import type { Command } from 'commander';
import { asSyncError, SyncError } from '../model/errors.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Answered, Route, RouteName, Routes } from '../workspace-api/contract.ts';
import type { ApiAnswer } from '../workspace-api/typed-client.ts';
import { type Output, type Setting, say, wholeNumber } from './command.ts';
import { table } from './words.ts';
import {
  type CommandClient,
  type CommandRow,
  runOnWorkspace,
  type WorkspaceFlags,
  workspaceCommand,
} from './workspace-command.ts';

export type Task = Answered<Routes['getTask']>;
type ListFlags = WorkspaceFlags & { readonly limit: number; readonly all?: boolean };
/** Values for an operation, by the names of its fields. */
export type Fields = Readonly<Record<string, unknown>>;

/** A command that sends one operation of the workspace API. Parameters of `never` take what the operation answers. */
export interface Shorthand extends CommandRow {
  readonly operation: RouteName;
  /** Adds the flags. Each flag and each argument is a value of the operation. */
  readonly options?: (command: Command) => unknown;
  /** The fields of arguments and flags that have another name. */
  readonly fields?: Readonly<Record<string, string>>;
  /** Changes the fields before the request. Throws `usage`. */
  readonly prepare?: (fields: Fields, config: WorkspaceConfig) => Fields;
  readonly send?: (client: CommandClient, fields: never) => Promise<{ status?: number; body: unknown }>;
  /** Returns the text for people, and where it is not the answer, the JSON. */
  readonly show?: (body: never, fields: Fields, status?: number) => string | Output;
  readonly list?: {
    /** The field of the answer that has the entries. */
    readonly name: string;
    /** The columns in which people see an entry. */
    readonly columns: (entry: never) => readonly string[];
    /** The help of `--all` if the operation answers the whole list at once; otherwise it is read page by page. */
    readonly all?: string;
    /** Returns a remark for people on the list that they asked for. */
    readonly remark?: (fields: Fields) => string | undefined;
  };
}

/** Adds the commands to a group. @param isForPeople whether their operations need an OAuth token */
export function addShorthands(group: Command, rows: readonly Shorthand[], setting: Setting, isForPeople = false): void {
  for (const row of rows) {
    const command = workspaceCommand(group, { ...row, isForPeople });
    if (row.list)
      command
        .option('--limit <number>', 'at most this many', wholeNumber, 50)
        .option('--all', row.list.all ?? 'read the whole list');
    const common = command.options.length;
    row.options?.(command);
    const names = command.options.slice(common).map((option) => option.attributeName());
    command.action(() => {
      const flags = command.opts<ListFlags>();
      const given = [
        ...command.registeredArguments.map((each, at) => [each.name(), command.args[at]]),
        ...names.map((name) => [name, command.getOptionValue(name)]),
      ].filter(([, value]) => value !== undefined);
      const named = Object.fromEntries(given.map(([name, value]) => [row.fields?.[name] ?? name, value]));
      const work: Parameters<typeof runOnWorkspace>[2] = async ({ client, config }) => {
        const fields = row.prepare?.(named, config) ?? named;
        const { taskId } = fields;
        const sent = typeof taskId === 'string' ? { ...fields, taskId: await taskIdOf(client, taskId) } : fields;
        return run(client, row, sent, flags);
      };
      return runOnWorkspace(setting, flags, work, isForPeople);
    });
  }
}

const LARGEST_PAGE = 100;

/** Sends the request of a command. A list is read in pages until there are `limit` entries, or no more. */
async function run(client: CommandClient, row: Shorthand, fields: Fields, flags: ListFlags): Promise<Output> {
  const { operation, list, show } = row;
  if (!list) {
    const { body, status } = await (row.send?.(client, fields as never) ?? call(client, operation, fields));
    const shown = show?.(body as never, fields, status) ?? '';
    return typeof shown === 'string' ? { text: shown, json: [body] } : shown;
  }
  const found: unknown[] = [];
  const wanted = flags.all ? Number.POSITIVE_INFINITY : flags.limit;
  const isWhole = flags.all && list.all;
  for (let cursor: unknown; found.length < wanted && cursor !== null; ) {
    const page = isWhole ? { all: true } : { limit: Math.min(LARGEST_PAGE, wanted - found.length), cursor };
    const body = (await call(client, operation, { ...fields, ...page })).body as Fields;
    found.push(...(body[list.name] as unknown[]));
    cursor = isWhole ? null : body['nextCursor'];
  }
  const remark = list.remark?.({ ...fields, ...flags });
  if (remark && !flags.json && process.stderr.isTTY) say(remark);
  return { text: table(found.map((entry) => list.columns(entry as never))), json: found };
}

/** Sends an operation. Its path takes the fields that it names, its body the others, and its query where it has no body. */
async function call(client: CommandClient, operation: RouteName, fields: Fields): Promise<ApiAnswer<unknown>> {
  const { ROUTES } = await import('../workspace-api/contract.ts');
  const route: Route = ROUTES[operation];
  const isId = (name: string) => route.path.includes(`{${name}}`);
  const rest = Object.fromEntries(Object.entries(fields).filter(([name]) => !isId(name)));
  return send(client, operation, { ...fields, [route.body ? 'body' : 'query']: rest });
}

/** Sends an operation. Throws `usage` for an id that cannot be one, because a person typed it. */
export async function send(
  client: CommandClient,
  operation: RouteName,
  parameters: Fields,
): Promise<ApiAnswer<unknown>> {
  try {
    return await (client[operation] as (given: Fields, context: object) => Promise<ApiAnswer<unknown>>)(parameters, {});
  } catch (error) {
    const { message, hint, cause } = asSyncError(error);
    throw cause instanceof RangeError ? new SyncError('usage', message, { hint, cause }) : error;
  }
}

/** Keys of people: letters, a hyphen, a number. Ids hold an underscore. */
const KEY = /^[A-Za-z][A-Za-z0-9]*-\d+$/;

/** One task by key or id, in one request. Throws `not_found`. */
export async function getTask(client: CommandClient, task: string): Promise<Task> {
  if (!KEY.test(task)) return (await client.getTask({ taskId: task }, {})).body;
  const { tasks } = (await client.listTasks({ query: { all: true } }, {})).body;
  const found = tasks.find(({ key }) => key.toUpperCase() === task.toUpperCase());
  if (found) return found;
  throw new SyncError('not_found', `the workspace has no task ${task}`, {
    hint: '"worksync tasks list --all" lists them.',
  });
}

/** The id of a task that is named by key or id; only a key costs a request. Throws `not_found`. */
export async function taskIdOf(client: CommandClient, task: string): Promise<string> {
  return KEY.test(task) ? (await getTask(client, task)).taskId : task;
}
