import type { Command } from 'commander';
import type { Answered } from '../../admin/admin-operations.ts';
import { describeTimeline } from '../deliveries/waterfall.ts';
import type { Setting } from '../setting.ts';
import { at, printable } from '../words.ts';
import { operationCommand, type WorkspaceFlags } from '../workspace-command.ts';
import { describeExplainedItem, describeTaskStatus, taskHead } from './explained.ts';

/** `worksync items`: a pull request or work item with everything that happened to it. */
export function addItems(program: Command, setting: Setting): void {
  const group = program.command('items').description('pull requests and work items: show').exitOverride();
  operationCommand(group, setting, {
    usage: 'show <item|task>',
    description: 'show what worksync knows of an item, why it is linked or not, and each step from delivery to answer',
    example: 'items show acme/app#7',
    operation: 'items',
    body: (_flags: WorkspaceFlags, name: string) => ({ name }),
    text: describeItems,
  });
}

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

function describeItem({
  label,
  connection,
  providerTime,
  fields,
  explained,
  deliveries,
  courses,
}: Told['items'][number]) {
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
