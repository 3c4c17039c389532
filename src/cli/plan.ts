import type { Command } from 'commander';
import type { LabReport } from '../admin/lab.ts';
import type { AppliedPlan, ShownPlan } from '../admin/plan.ts';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { type Asking, askingWorkspace } from './ask-workspace.ts';
import { describeLab } from './lab-report.ts';
import type { Session } from './session.ts';
import { type Exit, type Setting, sessionOf, wholeNumber } from './setting.ts';
import { lastSent, plural, printable } from './words.ts';
import { chooseWorkspace } from './workspace-client.ts';
import { show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

/** Exit code when something of the plan is left to do. */
const PARTIAL = 3;
/** Entities named of each kind of difference. */
const NAMED = 5;

const HELP = `
With --config and another file than the one in use, the command shows what that file would change of the items that worksync knows:
links, records, tasks and documents. Nothing is written. Such a plan has no id: put the file into use, then plan again.`;

type PlanFlags = WorkspaceFlags & { readonly apply?: string; readonly limit: number };

/**
 * `worksync plan`: what would be written, and how long that takes; `--apply` sends exactly that. `--config` with another file than
 * the one in use: what that file would change.
 */
export function addPlan(program: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'plan',
    description: 'show what would be written, in how many requests, and how long that takes; uses no quota',
    example: 'plan --apply 3f9a1c04d2be',
  };
  workspaceCommand(program, described, { costsQuota: false })
    .option('--limit <number>', 'how many changes to list', wholeNumber, 20)
    .option(
      '--apply <id>',
      'send the plan of that id, also what the guard holds; refused if the plan would write something else now',
    )
    .addHelpText('after', HELP)
    .action(async (flags: PlanFlags) => {
      const session = await sessionOf(setting, flags, () => 'warn');
      const { clock } = session.parts;
      await askingWorkspace(session, flags, async (asking) => {
        if (flags.apply === undefined) {
          const tried = await tryFile(session, flags, asking);
          if (tried && !tried.inUse) {
            show({ text: describeLab(tried, clock.now()), json: [tried] }, flags);
            return exit(0);
          }
          const plan = await asking.ask('plan', { limit: flags.limit });
          show({ text: describePlan(plan, clock.now()), json: [plan] }, flags);
          return exit(0);
        }
        const applied = await apply(asking, flags.apply, clock);
        show({ text: describeApplied(applied, asking.partition === undefined), json: [applied] }, flags);
        exit(asking.partition !== undefined && applied.left > 0 ? PARTIAL : 0);
      });
    });
}

/** Only where a file was named: what it would write is what is asked for. */
async function tryFile({ config }: Session, flags: PlanFlags, { ask }: Asking): Promise<LabReport | undefined> {
  if (flags.config === undefined) return undefined;
  const { file, name } = chooseWorkspace(config, flags.workspace);
  const { readConfigSource } = await import('../platform/config/load.ts');
  return ask('lab', { config: readConfigSource(file), limit: flags.limit }).catch((error: unknown) => {
    if (asSyncError(error).code !== 'not_found') throw error;
    throw new SyncError('not_found', `the daemon has no workspace "${name}", which ${file} configures`, {
      hint: 'The file is compared with the workspace of the same name: put "name: <workspace>" into it. "worksync status" lists the names.',
    });
  });
}

type Applied = Extract<AppliedPlan, { outcome: 'applied' }>;

/** Throws `plan_changed` where nothing was done. */
async function apply({ ask, partition }: Asking, id: string, clock: Clock): Promise<Applied> {
  const { sendPlan } = await import('../admin/plan.ts');
  const answer = partition ? await sendPlan(partition, id, clock) : await ask('apply', { id });
  if (answer.outcome === 'applied') return answer;
  throw new SyncError('plan_changed', whyNot(answer));
}

function whyNot(answer: Exclude<AppliedPlan, Applied>): string {
  if (answer.outcome === 'unknown') return 'this is not the plan that was shown last';
  if (answer.outcome !== 'changed') return 'worksync has not read the workspace yet, so it cannot know what to write';
  const parts = (['changed', 'added', 'gone'] as const)
    .filter((each) => answer[each].length > 0)
    .map((each) => `${each}: ${named(answer[each])}`);
  return `the plan has changed; ${parts.join('; ')}`;
}

function named(entities: readonly string[]): string {
  const more = entities.length > NAMED ? ` and ${entities.length - NAMED} more` : '';
  return printable(entities.slice(0, NAMED).join(', ')) + more;
}

export function describePlan(
  { id, writes, requests, drainedAt, entities, mirror, unread }: ShownPlan,
  now: number,
): string {
  const where = [
    printable(`  pull requests: ${mirror.message}`),
    ...(unread.length > 0 ? [printable(`  not read yet: ${unread.join(', ')}; more writes may follow`)] : []),
  ];
  if (requests === 0) {
    const nothing = unread.length > 0 ? 'nothing is known to be written yet' : 'nothing would be written';
    return [`plan ${id}: ${nothing}`, ...where].join('\n');
  }
  const total = writes.reduce((sum, { count }) => sum + count, 0);
  return [
    `plan ${id}: ${plural(requests, 'request')}, ${lastSent(drainedAt, now)}`,
    ...where,
    ...(requests > total ? [`  reads of the workspace: ${requests - total}`] : []),
    ...writes.map(({ action, count, held }) => `  ${action}: ${count}${held > 0 ? `, ${held} of them held` : ''}`),
    ...entities.map(({ label, action, held, sets }) =>
      printable(`    ${action}  ${label}${sets ? `  (${sets})` : ''}${held ? '  (held)' : ''}`),
    ),
    ...(total > entities.length ? [`    … ${total - entities.length} more`] : []),
  ].join('\n');
}

function describeApplied({ changes, left }: Applied, isDaemons: boolean): string {
  if (isDaemons) return `the daemon sends ${plural(changes, 'change')} now, as fast as the quota allows`;
  return `sent: ${changes - left} of ${plural(changes, 'change')}`;
}
