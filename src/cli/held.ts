import type { Command } from 'commander';
import type { NamedHeldChanges } from '../admin/waiting-changes.ts';
import { HELD_CLASSES, type HeldClass } from '../model/change.ts';
import { asTyped } from '../platform/lib/own-command.ts';
import { askingWorkspace } from './ask-workspace.ts';
import { type Exit, type Setting, sessionOf } from './setting.ts';
import { NAMED } from './waiting-changes.ts';
import { plural, printable } from './words.ts';
import { show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

/** Changes shown of each class: enough to see what they are. */
const SAMPLES = 10;

/** `worksync held`: the changes that need approval, and their release. */
export function addHeld(program: Command, setting: Setting, exit: Exit): void {
  const group = program.command('held').description('changes that need approval: list, release').exitOverride();
  addList(group, setting, exit);
  addRelease(group, setting, exit);
}

function addList(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'list',
    description: 'list what is held, and why (the default)',
    example: 'held --json',
  };
  workspaceCommand(group, described, { isDefault: true, costsQuota: false }).action(async (flags: WorkspaceFlags) => {
    const session = await sessionOf(setting, flags, () => 'warn');
    const held = await askingWorkspace(session, flags, ({ ask }) => ask('held', { samples: SAMPLES }));
    show({ text: describeHeld(held), json: [held] }, flags);
    exit(0);
  });
}

function describeHeld(held: NamedHeldChanges): string {
  const lines = HELD_CLASSES.filter((each) => held[each].count > 0).flatMap((each) => [
    asTyped(`${each}: ${held[each].count} held; "worksync held release --${each}" releases them`),
    ...held[each].samples.map(({ label, error }) => printable(`  ${label}${error === null ? '' : `  ${error}`}`)),
    ...(held[each].count > held[each].samples.length ? ['  …'] : []),
  ]);
  return lines.length === 0 ? 'nothing is held' : lines.join('\n');
}

type ReleaseFlags = WorkspaceFlags & { readonly [Class in HeldClass | 'all']?: boolean };

function addRelease(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'release [change...]',
    description: 'release held changes, whatever the limits say; a refused one is sent again',
    example: 'held release --removals',
  };
  workspaceCommand(group, described, { costsQuota: false })
    .addHelpText('after', `\n${NAMED}`)
    .option('--removals', 'links to be removed and records to be closed')
    .option('--creations', 'records, links and tasks to be created')
    .option('--repairs', 'records that a sweep found changed')
    .option('--statuses', 'changes of task statuses')
    .option('--refused', 'changes that the workspace refused')
    .option('--all', 'everything that is held (the default)')
    .action(async (entities: readonly string[], flags: ReleaseFlags) => {
      const named = HELD_CLASSES.filter((each) => flags[each]);
      const classes = flags.all || named.length + entities.length === 0 ? HELD_CLASSES : named;
      const session = await sessionOf(setting, flags, () => 'warn');
      const wish = { classes, entities };
      const answer = await askingWorkspace(session, flags, ({ ask }) => ask('release', wish));
      show({ text: `released: ${plural(answer.released, 'change')}`, json: [answer] }, flags);
      exit(0);
    });
}
