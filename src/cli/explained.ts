import type { Answered } from '../admin/admin-operations.ts';
import { counted } from '../platform/lib/quantities.ts';
import { at, printable } from './words.ts';

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
  absent: 'not linked',
};

/** Names a task, with its id behind a key. */
export function taskHead({ taskId, key, name }: NonNullable<Explained['task']>): string {
  return printable(key === taskId ? name : `${name}  ${taskId}`);
}

/** What people read. Texts of providers are made safe for the terminal. */
export function describeExplained({ task, items, isCut }: Explained): string {
  const head = task ? [taskHead(task)] : [];
  if (items.length === 0) return [...head, '  no item names it'].join('\n');
  const more = isCut ? [`these are ${counted(items.length, 'item')}: there may be more`] : [];
  return [...head, ...items.flatMap((item) => describeExplainedItem(item)), ...more].join('\n');
}

export function describeExplainedItem({ item, url, title, gone, links, others, triage, writeBack }: Item): string[] {
  const none = links.length === 0 ? ['  no links'] : [];
  return [
    printable(`${item}${gone ? '  (gone)' : ''}`),
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
  ];
}

function wayOf(item: string, isFormerName = false): string {
  return isFormerName ? `${item} by a former name` : item;
}

function describeLink({ name, state, reason, delivery, request, error }: Link): string[] {
  const because = reason
    ? [
        `    because ${reason.rule}: "${reason.text}" in ${reason.place} (${reason.intent}${reason.via ? `, of ${wayOf(reason.via, reason.isFormerName)}` : ''})`,
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
