import type { ListedChange, NamedHeldChanges, ShownChange } from '../../admin/changes/waiting-changes.ts';
import { CHANGE_STATES, type ChangeState, HELD_CLASSES, type HeldClass } from '../../model/change.ts';
import { SyncError } from '../../model/errors.ts';
import { asTyped } from '../../platform/lib/own-program.ts';
import { printable } from '../../platform/lib/text.ts';
import { type AddCommands, eachOf, wholeNumber } from '../command.ts';
import { plural, span } from '../words.ts';
import { operationCommand, requestCommand, type WorkspaceFlags } from '../workspace-command.ts';

const NAMED =
  'Name the changes of an item by the item: acme/app#7, ENG-12, or an address. "worksync changes show" names each of them alone.';

type ListFlags = WorkspaceFlags & { readonly state?: readonly ChangeState[]; readonly limit: number };

const DROP_HELP = `
worksync forgets the changes, but not what the workspace should hold: a later change of the item, or of the rules, brings them back.
${NAMED}`;

/** Adds the commands about the changes that wait to be written to the workspace. */
export const addChanges: AddCommands = (program, setting) => {
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
};

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

/** Changes shown of each class: enough to see what they are. */
const SAMPLES = 10;

type ReleaseFlags = WorkspaceFlags & { readonly [Class in HeldClass | 'all']?: boolean };

/** `worksync held`: the changes that need approval, and their release. */
export const addHeld: AddCommands = (program, setting) => {
  const group = program.command('held').description('changes that need approval: list, release').exitOverride();
  operationCommand(group, setting, {
    usage: 'list',
    description: 'list what is held, and why (the default)',
    example: 'held --json',
    isDefault: true,
    operation: 'held',
    body: () => ({ samples: SAMPLES }),
    text: describeHeld,
  });
  operationCommand(group, setting, {
    usage: 'release [change...]',
    description: 'release held changes, whatever the limits say; a refused one is sent again',
    example: 'held release --removals',
    help: `\n${NAMED}`,
    operation: 'release',
    body(flags: ReleaseFlags, entities: readonly string[]) {
      const named = HELD_CLASSES.filter((each) => flags[each]);
      return { classes: flags.all || named.length + entities.length === 0 ? HELD_CLASSES : named, entities };
    },
    text: ({ released }) => `released: ${plural(released, 'change')}`,
  })
    .option('--removals', 'links to be removed and records to be closed')
    .option('--creations', 'records, links and tasks to be created')
    .option('--repairs', 'records that a sweep found changed')
    .option('--statuses', 'changes of task statuses')
    .option('--refused', 'changes that the workspace refused')
    .option('--all', 'everything that is held (the default)');
};

function describeHeld(held: NamedHeldChanges): string {
  const lines = HELD_CLASSES.filter((each) => held[each].count > 0).flatMap((each) => [
    asTyped(`${each}: ${held[each].count} held; "worksync held release --${each}" releases them`),
    ...held[each].samples.map(({ label, error }) => printable(`  ${label}${error === null ? '' : `  ${error}`}`)),
    ...(held[each].count > held[each].samples.length ? ['  …'] : []),
  ]);
  return lines.length === 0 ? 'nothing is held' : lines.join('\n');
}
