import { configuredState, type Item, movedToOf, type WorkItem } from '../../model/item.ts';
import {
  fillTemplate,
  itemLine,
  OPTIONAL_TASK_FIELDS,
  type OptionalTaskField,
  withItemLine,
} from '../../model/task.ts';
import { beginningOf, cut, isBlank, LONGEST_TEXT, LONGEST_TITLE } from '../../model/text-limits.ts';
import { type ItemFields, SYNC_FIELDS, type SyncField } from '../../model/written-task.ts';
import { createGlob, createPattern, type Pattern, type PatternText } from '../../platform/lib/pattern.ts';

type Names = readonly string[];

/**
 * Workspace users by the names that a vendor uses for them. The outer key is a connection, a connector, or `email`. A
 * person without an entry is left out, never guessed.
 */
export type Users = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** One rule of the configuration. An absent condition of `when` matches every item. */
export interface TriageRule {
  readonly when: {
    readonly [Field in 'connection' | 'project' | 'labels' | 'type' | 'priority' | 'status' | 'author']?:
      | Names
      | undefined;
  } & { readonly text?: PatternText | undefined };
  readonly create: 'bug' | 'idea' | 'nothing';
  readonly title: string;
  readonly priority?: Readonly<Record<string, string>> | undefined;
  readonly labels: Names;
  readonly reporter?: string | undefined;
  /** Fields of the created task that follow the item. Absent: none. */
  readonly sync?: readonly SyncField[] | undefined;
  /** Items that last changed before this time create no task, epoch milliseconds. */
  readonly since?: number | undefined;
}

export interface TriageInput {
  readonly triage: readonly TriageRule[];
  /** The optional fields that are sent with a new task. Absent: all of them. */
  readonly send?: readonly OptionalTaskField[];
  readonly users: Users;
}

/** The body of the request that creates the task, with its kind. */
export interface NewTask {
  readonly kind: 'bug' | 'idea';
  readonly title: string;
  readonly source?: string;
  readonly description?: string;
  readonly priority?: string;
  readonly labels?: Names;
  readonly reporterUserId?: string;
  readonly assigneeIds?: Names;
  readonly reportedAt?: string;
}

export type TriageDecision =
  /** `rule` counts from 1. */
  | { readonly outcome: 'create'; readonly rule: number; readonly task: NewTask }
  | { readonly outcome: 'nothing'; readonly rule: number; readonly why: string }
  /** `why` has one reason for each rule, in their order, or one reason against all of them. */
  | { readonly outcome: 'no rule'; readonly why: Names };

export type Triage = ReturnType<typeof createTriage>;

export function createTriage({ triage, send = OPTIONAL_TASK_FIELDS, users }: TriageInput) {
  const rules = triage.map((rule) => ({ rule, conditions: conditionsOf(rule) }));
  const creating = rules.filter(({ rule }) => rule.create !== 'nothing');
  return {
    /** Whether any rules are configured. */
    isOn: rules.length > 0,
    /** Whether fields of created tasks follow their items. */
    syncs: creating.some(({ rule: { sync = [] } }) => sync.length > 0),
    /**
     * Returns the fields of its task that follow an item: by the first rule that creates tasks of such items, or that did
     * before their status changed. Undefined if there is no such rule. Pure.
     */
    fieldsOf(item: WorkItem, connection: string): ItemFields | undefined {
      const fits = ({ conditions }: (typeof rules)[number], isAnyStatus: boolean) =>
        conditions.every(({ name, matches }) => (isAnyStatus && name === 'status') || matches(item, connection));
      const found = creating.find((each) => fits(each, false)) ?? creating.find((each) => fits(each, true));
      return found && syncedFields(taskOf(item, connection, found.rule, { users, send }), found.rule.sync ?? [], send);
    },
    /**
     * Returns the decision of the first matching rule. Pure.
     *
     * @param since the time at which triage was switched on for the connection, epoch milliseconds: the default of rules
     * without one
     */
    decide(item: WorkItem, connection: string, since: number): TriageDecision {
      const movedTo = movedToOf(item);
      if (movedTo !== undefined) return { outcome: 'no rule', why: [`moved to ${movedTo}`] };
      const why: string[] = [];
      for (const [index, { rule, conditions }] of rules.entries()) {
        const failed = conditions.find((condition) => !condition.matches(item, connection));
        if (failed) why.push(`rule ${index + 1}: ${failed.name} does not fit`);
        else if (rule.create === 'nothing')
          return { outcome: 'nothing', rule: index + 1, why: `rule ${index + 1} says that no task is created` };
        else if ((item.toldAt ?? item.updatedAt) < (rule.since ?? since))
          return { outcome: 'nothing', rule: index + 1, why: `rule ${index + 1}: last changed before its \`since\`` };
        else return { outcome: 'create', rule: index + 1, task: taskOf(item, connection, rule, { users, send }) };
      }
      return { outcome: 'no rule', why };
    },
  };
}

interface TriageCondition {
  readonly name: string;
  matches(item: WorkItem, connection: string): boolean;
}

/** The values of an item that the globs of a condition are matched against. */
const CONDITION_VALUES: Readonly<
  Record<
    Exclude<keyof TriageRule['when'], 'text' | 'status'>,
    (item: WorkItem, connection: string) => readonly (string | null | undefined)[]
  >
> = {
  connection: (_item, connection) => [connection],
  project: ({ containerId, containerName }) => [containerId, containerName],
  labels: ({ labels }) => labels ?? [],
  type: ({ type }) => [type],
  priority: ({ priority }) => [priority],
  author: ({ author }) => [author],
};

/** Characters of a title or description that `text` is matched against. */
const MAX_SEARCHED = 10_000;

function conditionsOf({ when }: TriageRule): TriageCondition[] {
  const fields = Object.entries(CONDITION_VALUES).flatMap(([name, values]): TriageCondition[] => {
    const globs = when[name as keyof typeof CONDITION_VALUES]?.map(createGlob);
    if (!globs) return [];
    return [{ name, matches: (item, connection) => isAny(globs, values(item, connection)) }];
  });
  const { status, text } = when;
  const states = status?.map(createGlob);
  // Finished items match only a rule that names their state.
  const isStatusMatch = states
    ? (item: WorkItem) => isAny(states, [configuredState(item), item.rawState])
    : ({ state }: WorkItem) => state !== 'done';
  const pattern = text === undefined ? undefined : createPattern(text);
  const textCondition = pattern && {
    name: 'text',
    matches: ({ title, description }: WorkItem) =>
      [title, description].some((each) => each && pattern.test(each.slice(0, MAX_SEARCHED))),
  };
  return [...fields, { name: 'status', matches: isStatusMatch }, ...(textCondition ? [textCondition] : [])];
}

function isAny(globs: readonly Pattern[], values: readonly (string | null | undefined)[]): boolean {
  return values.some((value) => typeof value === 'string' && globs.some((glob) => glob.test(value)));
}

/** Returns the fields of a task that are synced. A field that is not sent with a new task is not. */
function syncedFields(task: NewTask, sync: readonly SyncField[], send: readonly OptionalTaskField[]): ItemFields {
  const { title, description, priority = 'none', assigneeIds = [], labels = [] } = task;
  const isSent = (name: string) =>
    send.some((field) => field === name) || !OPTIONAL_TASK_FIELDS.some((field) => field === name);
  const names = sync.map((field) => SYNC_FIELDS[field]).filter(isSent);
  const values = Object.entries({ title, description, priority, assigneeIds }).filter(([name]) =>
    names.some((each) => each === name),
  );
  return { values: Object.fromEntries(values), ...(names.includes('labels') && { labels }) };
}

const MAX_LABEL_LENGTH = 255;
const MAX_LABELS = 100;

function taskOf(
  item: WorkItem,
  connection: string,
  rule: TriageRule,
  { users, send }: Required<Pick<TriageInput, 'users' | 'send'>>,
): NewTask {
  const userOf = userFinder(users, item, connection);
  const labels = [...new Set([...(item.labels ?? []), ...rule.labels])]
    .map((label) => beginningOf(label.trim(), MAX_LABEL_LENGTH))
    .filter((label) => label !== '')
    .slice(0, MAX_LABELS);
  const assigneeIds = [...new Set((item.assignees ?? []).flatMap((name) => userOf(name) ?? []))];
  const reportedAt = timeOf(item.createdAt);
  const optional: Readonly<Record<OptionalTaskField, string | Names | undefined>> = {
    source: item.key,
    priority: priorityOf(item.priority, rule.priority),
    labels: labels.length === 0 ? undefined : labels,
    reporterUserId: userOf(item.author) ?? rule.reporter,
    assigneeIds: assigneeIds.length === 0 ? undefined : assigneeIds,
  };
  const sent = OPTIONAL_TASK_FIELDS.filter((field) => send.includes(field) && optional[field] !== undefined);
  return {
    kind: rule.create === 'idea' ? 'idea' : 'bug',
    title: titleOf(item, rule.title),
    description: withItemLine(item.description, itemLine(item), LONGEST_TEXT),
    ...Object.fromEntries(sent.map((field) => [field, optional[field]])),
    ...(reportedAt === undefined ? {} : { reportedAt }),
  };
}

function titleOf(item: WorkItem, template: string): string {
  const filled = fillTemplate(template, {
    title: item.title ?? '',
    identifier: item.identifier,
    project: item.containerName ?? item.containerId,
    type: item.type ?? '',
    priority: item.priority ?? '',
    status: item.rawState ?? item.state ?? '',
    author: item.author ?? '',
    connector: item.connector,
  });
  const title = filled.replace(/\s+/g, ' ').trim();
  return cut(isBlank(title) ? item.identifier : title, LONGEST_TITLE);
}

function timeOf(text: string | undefined): string | undefined {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? undefined : new Date(time).toISOString();
}

/** The priorities that trackers commonly use, and the priority of a task for each. */
const USUAL_PRIORITIES: Readonly<Record<string, string>> = {
  urgent: 'urgent',
  highest: 'urgent',
  critical: 'urgent',
  blocker: 'urgent',
  immediate: 'urgent',
  fatal: 'urgent',
  high: 'high',
  major: 'high',
  error: 'high',
  medium: 'medium',
  normal: 'medium',
  moderate: 'medium',
  warning: 'medium',
  low: 'low',
  minor: 'low',
  lowest: 'low',
  trivial: 'low',
  info: 'low',
  debug: 'low',
  none: 'none',
};

function priorityOf(priority: string | null | undefined, map: TriageRule['priority']): string | undefined {
  const name = priority?.trim().toLowerCase() ?? '';
  const entries = Object.entries(map ?? {});
  const configured = entries.find(([key]) => key.toLowerCase() === name && name !== '')?.[1];
  const usual = Object.hasOwn(USUAL_PRIORITIES, name) ? USUAL_PRIORITIES[name] : undefined;
  // A map with an entry for all others replaces the usual names.
  return configured ?? map?.['*'] ?? usual;
}

/** Returns a function that finds the workspace user of a vendor's name, ignoring case. */
function userFinder(users: Users, { connector, emails = {} }: Item, connection: string) {
  return (name: string | null | undefined): string | undefined => {
    if (!name) return undefined;
    const email = Object.hasOwn(emails, name) ? emails[name] : undefined;
    return (
      findUser(users, connection, name) ?? findUser(users, connector, name) ?? findUser(users, 'email', email ?? name)
    );
  };
}

/** Creates the function that tells whether the author of an item is a user of the workspace. */
export function createIsUser(users: Users): (item: Item, connection: string) => boolean {
  return (item, connection) => userFinder(users, item, connection)(item.author) !== undefined;
}

function findUser(users: Users, table: string, name: string): string | undefined {
  if (!Object.hasOwn(users, table)) return undefined;
  const lowerName = name.toLowerCase();
  return Object.entries(users[table] as Record<string, string>).find(([key]) => key.toLowerCase() === lowerName)?.[1];
}
