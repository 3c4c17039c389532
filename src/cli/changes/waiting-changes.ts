import type { Command } from 'commander';
import type { ListedChange, ShownChange } from '../../admin/changes/waiting-changes.ts';
import { CHANGE_STATES, type ChangeState } from '../../model/change.ts';
import { SyncError } from '../../model/errors.ts';
import { eachOf, type Setting, wholeNumber } from '../setting.ts';
import { plural, printable, span } from '../words.ts';
import { operationCommand, requestCommand, type WorkspaceFlags } from '../workspace-command.ts';

export const NAMED =
  'Name the changes of an item by the item: acme/app#7, ENG-12, or an address. "worksync changes show" names each of them alone.';

type ListFlags = WorkspaceFlags & { readonly state?: readonly ChangeState[]; readonly limit: number };

const DROP_HELP = `
worksync forgets the changes, but not what the workspace should hold: a later change of the item, or of the rules, brings them back.
${NAMED}`;

/** Adds the commands about the changes that wait to be written to the workspace. */
export function addChanges(program: Command, setting: Setting): void {
  const group = program
    .command('changes')
    .description('what waits to be written to the workspace: list, show, retry, drop')
    .exitOverride();
  const body = (_flags: WorkspaceFlags, targets: readonly string[]) => ({ targets });
  operationCommand(group, setting, {
    usage: 'list',
    description: 'list the changes that wait, the first due first (the default)',
    example: 'changes --state held --limit 20',
    isDefault: true,
    operation: 'changes',
    body: ({ state, limit }: ListFlags) => ({ states: state, limit }),
    text: (found, now) => found.map((each) => describe(each, now)).join('\n') || 'no change waits',
  })
    .option('--state <state>', `only ${CHANGE_STATES.join(', ')}; may be repeated`, eachOf(CHANGE_STATES))
    .option('--limit <number>', 'at most this many', wholeNumber, 50);
  operationCommand(group, setting, {
    usage: 'show <change...>',
    description: 'show changes with what the workspace should hold, and what it holds',
    example: 'changes show acme/app#7',
    help: `\n${NAMED}`,
    operation: 'changes-show',
    body,
    text: (found, now) => found.map((each) => describeWhole(each, now)).join('\n\n'),
  });
  operationCommand(group, setting, {
    usage: 'retry <change...>',
    description: 'try changes again now: failed ones before their pause ends, held ones in spite of the limits',
    example: 'changes retry acme/app#7',
    help: `\n${NAMED}`,
    operation: 'changes-retry',
    body,
    text: ({ retried }) => `to be tried again: ${plural(retried.length, 'change')}`,
  });
  requestCommand(group, setting, {
    usage: 'drop <change...>',
    description: 'forget changes that were not sent',
    example: 'changes drop acme/app#7 --yes',
    help: DROP_HELP,
    async run({ request }, { yes }: WorkspaceFlags & { readonly yes?: boolean }, targets: readonly string[]) {
      if (!yes) throw unconfirmed(await request('changes-show', { targets }));
      const { dropped } = await request('changes-drop', { targets });
      return { text: `dropped: ${plural(dropped.length, 'change')}`, json: [{ dropped }] };
    },
  }).option('--yes', 'drop them; without it the command only shows which they are');
}

function unconfirmed(found: readonly ShownChange[]): SyncError {
  const names = found.map(({ entity, kind, name }) => printable(`  ${name ?? entity}: ${NOUNS[kind]}`));
  const hint = 'Repeat the command with --yes to drop them.';
  return new SyncError('usage', [`this would drop ${plural(found.length, 'change')}:`, ...names].join('\n'), { hint });
}

/** A record in the workspace is no pull request at a provider. */
const NOUNS: Readonly<Record<ListedChange['kind'], string>> = {
  pull_request: 'record',
  link: 'link',
  task: 'task',
  task_update: 'task update',
  document: 'document',
  read: 'read',
};

function describe(
  { entity, name, sets, kind, effect, state, since, expectedAt, attempts, error }: ListedChange,
  now: number,
): string {
  const what = sets || (effect === null ? NOUNS[kind] : `${effect} of a ${NOUNS[kind]}`);
  const next = expectedAt !== null && expectedAt > now ? `, sent in about ${span(expectedAt - now)}` : '';
  const tried = `${attempts > 0 ? `, tried ${plural(attempts, 'time')}` : ''}${next}`;
  const head = `${state}  ${name ?? entity}: ${what}, for ${span(now - since)}${tried}`;
  return [head, ...(error === null ? [] : [`    ${error}`])].map(printable).join('\n');
}

function describeWhole(change: ShownChange, now: number): string {
  const { entity, desired, known } = change;
  const side = (value: unknown) => (value === null ? 'nothing' : printable(JSON.stringify(value)));
  return [
    describe(change, now),
    printable(`    entity   ${entity}`),
    `    desired  ${side(desired)}`,
    `    known    ${side(known)}`,
  ].join('\n');
}
