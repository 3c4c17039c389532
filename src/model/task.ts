import { cut, isBlank } from './text-limits.ts';

/** A task of the workspace, as far as the daemon caches it. */
export interface Task {
  readonly taskId: string;
  /** Short human key, such as `BUG-12`. In a workspace without keys it is the same as `taskId`. */
  readonly key: string;
  readonly title: string;
  readonly status: string;
  /** Identifies a created task: the item's key, or `api` for tasks that others created. */
  readonly source: string;
  /** RFC 3339, UTC; absent if the workspace does not report it. */
  readonly createdAt?: string;
  /** RFC 3339, UTC. */
  readonly updatedAt: string;
  /** `bug` or `idea`; absent if the workspace does not report it. */
  readonly kind?: string;
  /** The status before the last change that was observed. */
  readonly formerStatus?: string;
  /**
   * The latest time at which the status can have been set: its first observation, or the task's `updatedAt` then. 0 if the
   * task was created with this status. Epoch milliseconds.
   */
  readonly statusBefore?: number;
}

/** A state of a task as the workspace reported it. */
export type ReportedState = Pick<Task, 'status' | 'createdAt' | 'updatedAt'>;

/**
 * Returns the latest time at which the reported status can have been set, and the status before. The time is 0 if the task has
 * not changed since its creation. The clock of the workspace counts, because ours may be behind and observes changes late.
 * Ours counts too if the status changed and the time of the workspace did not.
 *
 * @param cached the state before; undefined if the task was not cached
 * @param now wall clock, epoch milliseconds
 */
export function statusHistory(
  cached: Task | undefined,
  { status, createdAt, updatedAt }: ReportedState,
  now: number,
): Pick<Task, 'formerStatus' | 'statusBefore'> {
  if (cached?.status === status) return { formerStatus: cached.formerStatus, statusBefore: cached.statusBefore };
  const changedAt = Date.parse(updatedAt) || now;
  if (cached === undefined) return { statusBefore: createdAt === updatedAt ? 0 : changedAt };
  const isSameTime = cached.updatedAt === updatedAt;
  return { formerStatus: cached.status, statusBefore: isSameTime ? Math.max(changedAt, now) : changedAt };
}

/** A wanted update of a task: `desired` of an entity of the kind `task_update`. A stored value. */
export interface TaskUpdate {
  /** The name of the status to set. */
  readonly status?: string;
  readonly addLabels?: readonly string[];
  readonly removeLabels?: readonly string[];
  /** Fields of its work item to set, by their names in the workspace. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** Hashes of the values that these fields must show, because a person has edited them otherwise. */
  readonly expected?: Readonly<Record<string, string>>;
  /** The labels of its work item, those to add and to remove, and those that worksync added before. */
  readonly itemLabels?: Readonly<Record<'all' | 'add' | 'remove' | 'added', readonly string[]>>;
  /** The name of the status on which the decision was based. The update is not sent to a task with another one. */
  readonly from: string;
  /** The rule that wants the status, for people: `standard: merged`. */
  readonly rule?: string;
  /** The earliest time at which a final status is sent, epoch milliseconds: further facts may still arrive. */
  readonly notBefore?: number;
}

/**
 * Describes what an update sets, for people: `status review → completed (standard: merged), labels +shipped -wip, title`. Empty for a
 * read of the task.
 */
export function describeUpdate({
  from,
  status,
  rule,
  addLabels = [],
  removeLabels = [],
  fields = {},
  itemLabels,
}: TaskUpdate): string {
  const labels = [
    ...[...addLabels, ...(itemLabels?.add ?? [])].map((label) => `+${label}`),
    ...[...removeLabels, ...(itemLabels?.remove ?? [])].map((label) => `-${label}`),
  ];
  return [
    ...(status === undefined ? [] : [`status ${from} → ${status}${rule === undefined ? '' : ` (${rule})`}`]),
    ...(labels.length === 0 ? [] : [`labels ${labels.join(' ')}`]),
    ...Object.keys(fields),
  ].join(', ');
}

/** How long a final status waits after its cause for further facts, milliseconds. */
export const FINAL_DELAY = 60_000;

/**
 * Fields of a created task that a server may refuse, or that an operator may leave out.
 * Title, description and `reportedAt` are always sent.
 */
export const OPTIONAL_TASK_FIELDS = ['labels', 'priority', 'assigneeIds', 'reporterUserId', 'source'] as const;
export type OptionalTaskField = (typeof OPTIONAL_TASK_FIELDS)[number];

/** The prefixes of task ids that are recognised until a list shows which ids the workspace assigns. */
export const USUAL_ID_PREFIXES: readonly string[] = ['tsk_'];

/** Returns a task of the workspace with its id as `key` if it has no key. Returns other values unchanged. */
export function withKey(task: unknown): unknown {
  if (typeof task !== 'object' || task === null) return task;
  const { key, taskId } = task as { readonly key?: unknown; readonly taskId?: unknown };
  if (typeof key === 'string' && key !== '') return task;
  return { ...task, key: typeof taskId === 'number' ? String(taskId) : taskId };
}

const MAX_SHOWN_TITLE = 60;

/**
 * Returns the name of a task for people: its key, or `"Door sticks" (tsk_9f2)` if it has none.
 * Contains text of strangers.
 */
export function taskName({ taskId, key, title }: Pick<Task, 'taskId' | 'key' | 'title'>): string {
  if (key !== taskId) return key;
  return isBlank(title) ? taskId : `"${cut(title, MAX_SHOWN_TITLE)}" (${taskId})`;
}

/** Returns the argument by which commands take a task: its key, or its id if it has none. @param name see `taskName` */
export function taskArgument({ taskId, name }: { readonly taskId: string; readonly name: string }): string {
  return name.endsWith(`(${taskId})`) ? taskId : name;
}

/** Variables that the configured title of a created task may contain, as `{name}`. */
export const TEMPLATE_VARIABLES = [
  'title',
  'identifier',
  'project',
  'type',
  'priority',
  'status',
  'author',
  'connector',
] as const;

export type TemplateVariable = (typeof TEMPLATE_VARIABLES)[number];

/** Returns the parts of a template: texts, and variables by name. Undefined if it contains an unknown variable. */
export function parseTemplate(template: string): readonly (string | { readonly name: TemplateVariable })[] | undefined {
  const parts = template.split(/(\{[^{}]*\})/).map((part) => {
    if (!part.startsWith('{') || !part.endsWith('}')) return part;
    const name = TEMPLATE_VARIABLES.find((variable) => variable === part.slice(1, -1).trim());
    return name === undefined ? undefined : { name };
  });
  return parts.includes(undefined) ? undefined : (parts as (string | { name: TemplateVariable })[]);
}

/** Fills in the variables of a template. Returns an empty text if it contains an unknown variable. */
export function fillTemplate(template: string, values: Readonly<Record<TemplateVariable, string>>): string {
  return (parseTemplate(template) ?? []).map((part) => (typeof part === 'string' ? part : values[part.name])).join('');
}

const LINE = 'Source: ';
/** A longer line names no item. UTF-16 units. */
const LONGEST_LINE = 2_200;
/** Lines of one text that are considered. */
const MOST_LINES = 8;

/** Returns the last line of the description of a created task: the address of its item, or its connector and name. */
export function itemLine({
  url,
  connector,
  identifier,
}: {
  url?: string;
  connector: string;
  identifier: string;
}): string {
  return `${LINE}${url ?? `${connector} ${identifier}`}`;
}

/** Appends the item line to a description. Cuts the description to fit `longest`, but never the line. */
export function withItemLine(description: string | null | undefined, line: string, longest: number): string {
  const text = description?.trimEnd() ?? '';
  return text === '' ? line : `${cut(text, longest - line.length - 2)}\n\n${line}`;
}

/** Returns the item line at the end of a description; empty if there is none. */
export function itemLineIn(description: string | null | undefined): string {
  const line = lastLine(description);
  return line.startsWith(LINE) && line.length <= LONGEST_LINE ? line : '';
}

/** Returns the address or the name in an item line. */
export function addressIn(line: string): string {
  return line.slice(LINE.length);
}

/** Returns all possible item lines in a text that others may have edited or marked up, one per line. */
export function itemLinesIn(text: string): string {
  const lines: string[] = [];
  for (let at = text.indexOf(LINE); at !== -1 && lines.length < MOST_LINES; at = text.indexOf(LINE, at + 1)) {
    const [line = ''] = text.slice(at, at + LONGEST_LINE).split('\n', 1);
    lines.push(line);
  }
  return lines.join('\n');
}

/** Whether a text, perhaps with markup around the line, contains this item line. The line of `ENG-12` does not contain that of `ENG-1`. */
export function hasItemLine(text: string | null | undefined, line: string): boolean {
  if (!text || line === '') return false;
  for (let at = text.indexOf(line); at !== -1; at = text.indexOf(line, at + 1))
    if (!/^[\p{L}\p{N}_/-]/u.test(text.slice(at + line.length, at + line.length + 2))) return true;
  return false;
}

/** Returns the last line of a text, trimmed; empty if there is none. */
export function lastLine(text: string | null | undefined): string {
  const end = text?.trimEnd() ?? '';
  return end.slice(end.lastIndexOf('\n') + 1).trim();
}
