import type { Command } from 'commander';
import type { NamedHeldChanges } from '../../admin/changes/waiting-changes.ts';
import { HELD_CLASSES, type HeldClass } from '../../model/change.ts';
import { asTyped } from '../../platform/lib/own-program.ts';
import type { Setting } from '../setting.ts';
import { plural, printable } from '../words.ts';
import { operationCommand, type WorkspaceFlags } from '../workspace-command.ts';
import { NAMED } from './waiting-changes.ts';

/** Changes shown of each class: enough to see what they are. */
const SAMPLES = 10;

type ReleaseFlags = WorkspaceFlags & { readonly [Class in HeldClass | 'all']?: boolean };

/** `worksync held`: the changes that need approval, and their release. */
export function addHeld(program: Command, setting: Setting): void {
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
}

function describeHeld(held: NamedHeldChanges): string {
  const lines = HELD_CLASSES.filter((each) => held[each].count > 0).flatMap((each) => [
    asTyped(`${each}: ${held[each].count} held; "worksync held release --${each}" releases them`),
    ...held[each].samples.map(({ label, error }) => printable(`  ${label}${error === null ? '' : `  ${error}`}`)),
    ...(held[each].count > held[each].samples.length ? ['  …'] : []),
  ]);
  return lines.length === 0 ? 'nothing is held' : lines.join('\n');
}
