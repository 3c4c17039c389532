import { isDeepStrictEqual } from 'node:util';
import type { TaskUpdate } from '../../model/task.ts';
import { serverStatus, type TaskStatuses } from '../../model/task-status.ts';
import { isSameField } from '../../model/written-task.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import { namesIn } from '../../platform/lib/shape.ts';
import type { TaskUpdateFacts, UpdateForm } from '../../store/tasks/stored-tasks.ts';
import { apiOverrides } from '../../workspace-api/contract.ts';

export type TaskFields = Readonly<Record<string, unknown>>;

/** The fields of a task that clients may write (W37). */
const WRITABLE = ['title', 'description', 'status', 'priority', 'teamIds', 'assigneeIds', 'labels'] as const;

/** Returns the body that the route for updates takes, by the configuration. */
export function updateFormOf({ workspace }: Pick<WorkspaceConfig, 'workspace'>): UpdateForm {
  const { taskUpdate } = apiOverrides.parse(workspace.api ?? {});
  return taskUpdate ?? (workspace.url === undefined ? 'fields' : 'whole');
}

/** The form of the body of an update. */
export interface BodyForm {
  readonly form: UpdateForm;
  /** Without the fields that only the server writes. */
  readonly isStripped: boolean;
}

/**
 * Returns the forms in which an update is tried, in this order. An accepted form is the only one, because a later refusal
 * concerns its content.
 */
export function formsOf(
  configured: UpdateForm,
  { fieldsOff, readOnly, verified = {} }: TaskUpdateFacts,
): readonly [BodyForm, ...BodyForm[]] {
  const stripped = { form: 'whole', isStripped: true } as const;
  const whole = { form: 'whole', isStripped: false } as const;
  const wholes: readonly [BodyForm, ...BodyForm[]] =
    readOnly === 'certain' ? [stripped] : verified.whole ? [whole] : [whole, stripped];
  if (configured === 'whole' || fieldsOff === 'certain') return wholes;
  const fields = { form: 'fields', isStripped: false } as const;
  return verified.fields ? [fields] : [fields, ...wholes];
}

/** Returns a tag for `If-Match`, which compares strongly: a weak tag never matches. */
export function strongTag(etag: string | undefined): string | undefined {
  return etag === undefined || etag.startsWith('W/') ? undefined : etag;
}

/** Whether a task has the status on which the update was based, or the one that it sets. */
export function isBasedOn({ status, from }: TaskUpdate, statuses: TaskStatuses, present: string): boolean {
  return [from, status ?? from].some((each) => serverStatus(statuses, each) === present);
}

/** Returns the last of these updates that set the present status of the task. */
export function arrivedOf(
  attempted: readonly TaskUpdate[] | undefined,
  statuses: TaskStatuses,
  present: string,
): TaskUpdate | undefined {
  return attempted?.findLast(({ status }) => status !== undefined && serverStatus(statuses, status) === present);
}

/**
 * Returns the fields that the update changes. Labels that are not texts are left alone, because they cannot be written.
 *
 * @param task as the workspace returned it; undefined: all fields of the update
 */
export function changedFields(update: TaskUpdate, statuses: TaskStatuses, task: TaskFields = {}): TaskFields {
  const labels = labelsAfter(update, task['labels']);
  const wanted = {
    ...update.fields,
    ...(labels && { labels }),
    ...(update.status !== undefined && { status: serverStatus(statuses, update.status) }),
  };
  const isSame = (name: string, value: unknown) =>
    update.fields !== undefined && Object.hasOwn(update.fields, name)
      ? isSameField(name, task[name], value)
      : isDeepStrictEqual(task[name], value);
  return Object.fromEntries(Object.entries(wanted).filter(([name, value]) => !isSame(name, value)));
}

/** Undefined if the update changes no labels. Keeps the order, and each label that it does not name. */
function labelsAfter(update: TaskUpdate, labels: unknown): unknown[] | undefined {
  const addLabels = [...(update.addLabels ?? []), ...(update.itemLabels?.add ?? [])];
  const removeLabels = [...(update.removeLabels ?? []), ...(update.itemLabels?.remove ?? [])];
  if (addLabels.length + removeLabels.length === 0) return undefined;
  const present = Array.isArray(labels) ? labels : [];
  if (present.some((label) => typeof label !== 'string')) return undefined;
  return [...new Set([...present.filter((label) => !removeLabels.includes(label)), ...addLabels])];
}

/** Whether the update can be computed without the task. */
export function needsNoTask({ addLabels = [], removeLabels = [], fields, itemLabels }: TaskUpdate): boolean {
  return addLabels.length + removeLabels.length === 0 && fields === undefined && itemLabels === undefined;
}

/**
 * Returns the body of an update. `isStripped` leaves out the fields that only the server writes, and values that the
 * contract does not know; labels are sent by their names.
 */
export function updateBody({ form, isStripped }: BodyForm, task: TaskFields, changed: TaskFields): TaskFields {
  if (form === 'fields') return changed;
  return { ...(isStripped ? strippedFields(task) : task), ...changed };
}

function strippedFields(task: TaskFields): TaskFields {
  const texts = ['title', 'description', 'status', 'priority'].filter(
    (name) => typeof task[name] === 'string' || task[name] === null,
  );
  const lists = ['teamIds', 'assigneeIds', 'labels'].filter((name) => Array.isArray(task[name]));
  return Object.fromEntries([
    ...texts.map((name) => [name, task[name]]),
    ...lists.map((name) => [name, namesIn(task[name])]),
  ]);
}

/**
 * Returns the names of the fields that an update has cleared although it did not send a new value. An edit by somebody
 * else at the same time looks the same only if it clears a field.
 */
export function clearedFields(before: TaskFields, after: TaskFields, changed: TaskFields): string[] {
  return WRITABLE.filter((name) => !Object.hasOwn(changed, name) && !isEmpty(before[name]) && isEmpty(after[name]));
}

/** Whether a value is empty, or the default of a priority. */
function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '' || value === 'none' || isDeepStrictEqual(value, []);
}
