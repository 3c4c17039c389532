import type { Command } from 'commander';
import type { ListedChange, ShownChange } from '../admin/waiting-changes.ts';
import { CHANGE_STATES, type ChangeState } from '../model/change.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { askingWorkspace } from './ask-workspace.ts';
import { type Exit, eachOf, type Setting, sessionOf, wholeNumber } from './setting.ts';
import { plural, printable, span } from './words.ts';
import { type Output, show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

/** Help on the arguments that name changes. */
export const NAMED =
  'Name the changes of an item by the item: acme/app#7, ENG-12, or an address. "worksync changes show" names each of them alone.';

/** `worksync changes`: what waits to be written to the workspace. */
export function addChanges(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('changes')
    .description('what waits to be written to the workspace: list, show, retry, drop')
    .exitOverride();
  for (const add of [addList, addShow, addRetry, addDrop]) add(group, setting, exit);
}

type ListFlags = WorkspaceFlags & { readonly state?: readonly ChangeState[]; readonly limit: number };

function addList(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'list',
    description: 'list the changes that wait, the first due first (the default)',
    example: 'changes --state held --limit 20',
  };
  workspaceCommand(group, described, { isDefault: true, costsQuota: false })
    .option('--state <state>', `only ${CHANGE_STATES.join(', ')}; may be repeated`, eachOf(CHANGE_STATES))
    .option('--limit <number>', 'at most this many', wholeNumber, 50)
    .action(async ({ state, limit, ...flags }: ListFlags) => {
      const session = await sessionOf(setting, flags, () => 'warn');
      const now = session.parts.clock.now();
      const found = await askingWorkspace(session, flags, ({ ask }) => ask('changes', { states: state, limit }));
      const text = found.map((each) => describe(each, now)).join('\n');
      show({ text: text || 'no change waits', json: found }, flags);
      exit(0);
    });
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

function addShow(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'show <change...>',
    description: 'show changes with what the workspace should hold, and what it holds',
    example: 'changes show acme/app#7',
  };
  workspaceCommand(group, described, { costsQuota: false })
    .addHelpText('after', `\n${NAMED}`)
    .action(async (targets: readonly string[], flags: WorkspaceFlags) => {
      const session = await sessionOf(setting, flags, () => 'warn');
      const now = session.parts.clock.now();
      const found = await askingWorkspace(session, flags, ({ ask }) => ask('changes-show', { targets }));
      show({ text: found.map((each) => describeWhole(each, now)).join('\n\n'), json: found }, flags);
      exit(0);
    });
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

function addRetry(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'retry <change...>',
    description: 'try changes again now: failed ones before their pause ends, held ones in spite of the limits',
    example: 'changes retry acme/app#7',
  };
  workspaceCommand(group, described, { costsQuota: false })
    .addHelpText('after', `\n${NAMED}`)
    .action((targets: readonly string[], flags: WorkspaceFlags) =>
      act(setting, exit, flags, 'changes-retry', targets, ({ retried }) => ({
        text: `to be tried again: ${plural(retried.length, 'change')}`,
        json: [{ retried }],
      })),
    );
}

const DROP_HELP = `
worksync forgets the changes, but not what the workspace should hold: a later change of the item, or of the rules, brings them back.
${NAMED}`;

function addDrop(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'drop <change...>',
    description: 'forget changes that were not sent',
    example: 'changes drop acme/app#7 --yes',
  };
  workspaceCommand(group, described, { costsQuota: false })
    .option('--yes', 'drop them; without it the command only shows which they are')
    .addHelpText('after', DROP_HELP)
    .action(async (targets: readonly string[], { yes, ...flags }: WorkspaceFlags & { readonly yes?: boolean }) => {
      if (!yes) await refuseUnconfirmed(setting, flags, targets);
      await act(setting, exit, flags, 'changes-drop', targets, ({ dropped }) => ({
        text: `dropped: ${plural(dropped.length, 'change')}`,
        json: [{ dropped }],
      }));
    });
}

/** Throws `usage`, which names what would be dropped. */
async function refuseUnconfirmed(setting: Setting, flags: WorkspaceFlags, targets: readonly string[]): Promise<never> {
  const session = await sessionOf(setting, flags, () => 'warn');
  const found = await askingWorkspace(session, flags, ({ ask }) => ask('changes-show', { targets }));
  const names = found.map(({ entity, kind, name }) => printable(`  ${name ?? entity}: ${NOUNS[kind]}`));
  const hint = 'Repeat the command with --yes to drop them.';
  throw new SyncError('usage', [`this would drop ${plural(found.length, 'change')}:`, ...names].join('\n'), { hint });
}

type Answers = { 'changes-retry': { retried: readonly string[] }; 'changes-drop': { dropped: readonly string[] } };

async function act<Name extends keyof Answers>(
  setting: Setting,
  exit: Exit,
  flags: WorkspaceFlags,
  question: Name,
  targets: readonly string[],
  tell: (answer: Answers[Name]) => Output,
): Promise<void> {
  const session = await sessionOf(setting, flags, () => 'warn');
  const answer = await askingWorkspace(session, flags, ({ ask }) => ask(question, { targets }));
  show(tell(answer as Answers[Name]), flags);
  exit(0);
}
