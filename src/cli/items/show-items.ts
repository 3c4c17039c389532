import type { Answered } from '../../admin/admin-operations.ts';
import { taskArgument } from '../../model/task.ts';
import { nextWords, reasonWords } from '../../model/workflow.ts';
import { asTyped } from '../../platform/lib/own-program.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { printable } from '../../platform/lib/text.ts';
import type { AddCommands } from '../command.ts';
import { describeTimeline } from '../deliveries/waterfall.ts';
import { at, table } from '../words.ts';
import { operationCommand, type WorkspaceFlags } from '../workspace-command.ts';

/** `worksync items`: a pull request or work item with everything that happened to it. */
export const addItems: AddCommands = (program, setting) => {
  const group = program.command('items').description('pull requests and work items: show').exitOverride();
  operationCommand(group, setting, {
    usage: 'show <item|task>',
    description: 'show what worksync knows of an item, why it is linked or not, and each step from delivery to answer',
    example: 'items show acme/app#7',
    operation: 'items',
    body: (_flags: WorkspaceFlags, name: string) => ({ name }),
    text: describeItems,
  });
};

type Told = Answered<'items'>;

export function describeItems({ task, statuses, items, count }: Told): string {
  return [
    ...(task ? [taskHead(task)] : []),
    ...statuses.flatMap(describeTaskStatus),
    ...(items.length === 0 ? ['  no item names it'] : []),
    ...items.flatMap(describeItem),
    ...(count > items.length ? [`and ${count - items.length} more`] : []),
  ].join('\n');
}

function describeItem(item: Told['items'][number]): string[] {
  const { label, connection, providerTime, fields, explained, deliveries, courses } = item;
  const state = fields.rawState ?? fields.state ?? 'state unknown';
  return [
    printable(label),
    printable(`  ${state}, as of ${at(providerTime)}, through ${connection}`),
    ...describeExplainedItem(explained).map((line) => `  ${line}`),
    ...(deliveries.length === 0 ? [] : ['  changed by']),
    ...deliveries.map(({ id, receivedAt, source, event, key }) =>
      printable(`    delivery ${id}: ${source} ${event}, ${at(receivedAt)} (${key})`),
    ),
    ...courses.flatMap(describeTimeline).map((line) => `  ${line}`),
  ];
}

type Explained = Answered<'explain'>;
type Item = Explained['items'][number];
type Link = Item['links'][number];

const STATES: Readonly<Record<Link['state'], string>> = {
  linked: 'linked',
  manual: 'linked by a person; never removed',
  removed: 'removed by a person; not added again while the text names the task',
  waiting: 'waits to be sent',
  sending: 'is being sent',
  held: 'held: it needs approval',
  unknown: 'outcome unknown: sent, no answer; worksync finds out',
  withdrawn: 'not linked, and not to be sent',
  absent: 'not linked',
};

/** Names a task, with its id behind a key. */
export function taskHead({ taskId, key, name }: NonNullable<Explained['task']>): string {
  return printable(key === taskId ? name : `${name}  ${taskId}`);
}

export function describeExplained({ task, statuses, items, isCut }: Explained): string {
  const ruleless = task && statuses.length === 0 ? ['  no rules for its status are configured (rules.workflow)'] : [];
  const head = [...(task ? [taskHead(task)] : []), ...statuses.flatMap(describeTaskStatus), ...ruleless];
  if (items.length === 0) return [...head, '  no item names it'].join('\n');
  const more = isCut ? [`these are ${counted(items.length, 'item')}: there may be more`] : [];
  return [...head, ...items.flatMap((item) => describeExplainedItem(item)), ...more].join('\n');
}

export function describeExplainedItem(explained: Item): string[] {
  const { item, url, title, gone, movedTo, links, others, triage, writeBack, notWritten } = explained;
  const none = links.length === 0 ? ['  no links'] : [];
  const moved = movedTo == null ? '' : `  (moved to ${movedTo}: its task is not changed)`;
  return [
    printable(`${item}${gone ? '  (gone)' : ''}${moved}`),
    ...(url ? [printable(`  ${url}  ${title ?? ''}`)] : []),
    ...links.flatMap(describeLink),
    ...none,
    ...others.map(({ text, place, why, via, isFormerName }) =>
      printable(`  not by "${text}" (${place}${via ? `, ${wayOf(via, isFormerName)}` : ''}): ${why}`),
    ),
    ...(triage === null ? [] : [printable(`  triage: ${triage}`)]),
    ...writeBack.map(({ kind, state, wanted, error }) =>
      printable(`  write-back: ${kind} ${state}${wanted ? ` "${wanted}"` : ''}${error ? `: ${error}` : ''}`),
    ),
    ...(notWritten == null ? [] : [`  write-back: ${notWritten}`]),
  ];
}

function wayOf(item: string, isFormerName = false): string {
  return isFormerName ? `${item} by a former name` : item;
}

function describeLink({ name, state, reason, delivery, request, error }: Link): string[] {
  const because = reason
    ? [
        `    because ${reason.rule}: "${reason.text}" in ${reason.place} (${reason.strength ?? 'mentioning'}${reason.via ? `, of ${wayOf(reason.via, reason.isFormerName)}` : ''})`,
      ]
    : [];
  return [
    `  ${name}: ${STATES[state]}`,
    ...because,
    ...(delivery
      ? [
          `    delivery ${delivery.id}: ${delivery.event} of ${delivery.connection}, ${at(delivery.receivedAt)} (${delivery.key})`,
        ]
      : []),
    ...(request
      ? [`    request ${request.id}: ${request.action}, sent ${at(request.sentAt)}, answered ${at(request.answeredAt)}`]
      : []),
    ...(error ? [`    ${error}`] : []),
  ].map(printable);
}

type TaskStatus = Explained['statuses'][number];

const AUTHORS = { worksync: 'worksync', person: 'person', creation: 'set at its creation' } as const;

/** Returns the lines about the status of a task: at most six, then one for each field of people and each linked item. */
export function describeTaskStatus(task: TaskStatus): string[] {
  const { name, status, knownAt, setBy, previous, wanted, reason, labels, change, fieldsOfPeople, items, more } = task;
  const before = previous === null ? '' : `; before: ${previous}`;
  const since = setBy.since === null ? '' : `, since ${at(setBy.since)}`;
  const because = wanted?.item ? `, because of ${wanted.item}` : '';
  const rows = items.map((item) => [
    `    ${item.connection} ${item.name}`,
    `${item.phase} ${at(item.since)}, ${item.strength} (${item.place})`,
    [item.counts ? item.status : 'does not count', reasonWords(item.reason)].filter(Boolean).join(': '),
  ]);
  return [
    `  ${name}  ${status}  (${setBy.rule === null ? AUTHORS[setBy.who] : `${setBy.who}, ${setBy.rule}`}${since}${before}; read ${at(knownAt)})`,
    ...(wanted ? [`    the rules want ${wanted.status}: ${wanted.rule}${because}`] : []),
    ...(reason ? [`    no change: ${reasonWords(reason)}`] : []),
    ...(reason?.remedy ? [`    remedy: ${asTyped(reason.remedy)}`] : []),
    ...(labels.add.length + labels.remove.length > 0 ? [`    the rules want the labels ${labelWords(labels)}`] : []),
    ...(change ? [`    next: ${nextOf(change)}`] : []),
    ...fieldsOfPeople.map(
      (field) =>
        `    a person edited ${field}; ${asTyped(`"worksync links release-field ${taskArgument(task)} ${field}"`)} lets it follow the item`,
    ),
    ...(rows.length === 0 ? [] : table(rows).split('\n')),
    ...(more > 0 ? [`    and ${counted(more, 'item')} more`] : []),
  ].map(printable);
}

function nextOf(change: NonNullable<TaskStatus['change']>): string {
  const { words, isTimed } = nextWords(change);
  return isTimed ? `${words} at ${at(change.expectedAt ?? change.notBefore)}` : words;
}

/** `+review -ready` */
function labelWords({ add, remove }: TaskStatus['labels']): string {
  return [...add.map((label) => `+${label}`), ...remove.map((label) => `-${label}`)].join(' ');
}
