import type { AppliedPlan, ShownPlan } from '../../admin/changes/plan.ts';
import { describeLabEnd, laterCondition } from '../../admin/labels.ts';
import type { EffectOfRules, LabReport, LabSample } from '../../admin/workspace/lab.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { printable } from '../../platform/lib/text.ts';
import { type AddCommands, PARTIAL, wholeNumber } from '../command.ts';
import { lastSent, plural, span } from '../words.ts';
import { type CommandContext, requestCommand, type WorkspaceFlags } from '../workspace-command.ts';

const NAMED = 5;

const HELP = `
With --config and another file than the one in use, the command shows what that file would change of the items that worksync knows:
links, records, tasks and documents. Nothing is written. Such a plan has no id: put the file into use, then plan again.`;

type PlanFlags = WorkspaceFlags & { readonly apply?: string; readonly limit: number };

/**
 * `worksync plan`: what would be written, and how long that takes; `--apply` sends exactly that. `--config` with another file than
 * the one in use: what that file would change.
 */
export const addPlan: AddCommands = (program, setting) => {
  requestCommand(program, setting, {
    usage: 'plan',
    description: 'show what would be written, in how many requests, and how long that takes; uses no quota',
    example: 'plan --apply 3f9a1c04d2be',
    help: HELP,
    async run(context, flags: PlanFlags) {
      const { partition, session, request } = context;
      const { clock } = session.parts;
      if (flags.apply !== undefined) {
        const applied = await apply(context, flags.apply);
        const text = describeApplied(applied, partition === undefined);
        return { text, json: [applied], code: partition !== undefined && applied.left > 0 ? PARTIAL : 0 };
      }
      const tried = await tryFile(flags, context);
      if (tried && !tried.inUse) return { text: describeLab(tried, clock.now()), json: [tried] };
      const plan = await request('plan', { limit: flags.limit });
      return { text: describePlan(plan, clock.now()), json: [plan] };
    },
  })
    .option('--limit <number>', 'how many changes to list', wholeNumber, 20)
    .option(
      '--apply <id>',
      'send the plan of that id, also what the guard holds; refused if the plan would write something else now',
    );
};

/** Tries the file that `--config` names. Absent: nothing is tried. */
async function tryFile(flags: PlanFlags, { request, config }: CommandContext): Promise<LabReport | undefined> {
  if (flags.config === undefined) return undefined;
  const { file, name } = config;
  const { readConfigSource } = await import('../../platform/config/load.ts');
  return request('lab', { config: readConfigSource(file), limit: flags.limit }).catch((error: unknown) => {
    if (asSyncError(error).code !== 'not_found') throw error;
    throw new SyncError('not_found', `the daemon has no workspace "${name}", which ${file} configures`, {
      hint: 'The file is compared with the workspace of the same name: put "name: <workspace>" into it. "worksync status" lists the names.',
    });
  });
}

type Applied = Extract<AppliedPlan, { outcome: 'applied' }>;

/** Throws `plan_changed` where nothing was done. */
async function apply({ request, partition, session }: CommandContext, id: string): Promise<Applied> {
  const { sendPlan } = await import('../../admin/changes/plan.ts');
  const answer = partition ? await sendPlan(partition, id, session.parts.clock) : await request('apply', { id });
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

const WORDS: Readonly<Record<EffectOfRules, string>> = {
  'add-link': 'links added',
  'remove-link': 'links removed',
  record: 'pull requests written',
  'create-task': 'tasks created',
  'update-task': 'tasks updated',
  'attach-document': 'documents attached',
};

export function describeLab(report: LabReport, now: number): string {
  const { items, ended, requests, drainedAt, without, effects, samples } = report;
  const wait = drainedAt - now;
  const time = wait > 1_000 ? `the last of them can be sent in ${span(wait)}` : 'all of them can be sent at once';
  return [
    `evaluated ${counted(items.open, 'open item')} and ${counted(items.finished, 'finished item')} by this configuration; nothing was written`,
    requests === 0 ? 'it would send no request now' : `it would send ${counted(requests, 'request')} now; ${time}`,
    ...(ended ? [describeLabEnd(ended)] : []),
    ...effects.map(describeEffect),
    ...without.map(
      ({ connection, items: left }) =>
        `  connection ${connection} is not in this configuration: its ${counted(left, 'item')} would stay as they are`,
    ),
    ...samples.map(describeSample),
    ...(requests > 0 ? ['changes that exceed the limits of "guard" would be held'] : []),
  ].join('\n');
}

function describeEffect({ effect, added, dropped, later }: LabReport['effects'][number]): string {
  const parts = [
    `${added} now`,
    ...(later > 0 ? [`${later} ${laterCondition(effect)}`] : []),
    ...(dropped > 0 ? [`${dropped} that wait would no longer be needed`] : []),
  ];
  return `  ${WORDS[effect]}: ${parts.join(', ')}`;
}

const SIGNS = { added: '+', later: '~', dropped: '-' } as const;

function describeSample({ effect, change, item, title, task, reason, sets }: LabSample): string {
  const what = [item, title === null ? null : `"${title}"`, task && `→ ${task}`].filter(Boolean).join(' ');
  const because = reason && `${reason.rule}: ${reason.text}`;
  const why = sets ? `  (${sets})` : because ? `  (${because})` : '';
  return printable(`    ${SIGNS[change]} ${effect}  ${what}${why}`);
}
