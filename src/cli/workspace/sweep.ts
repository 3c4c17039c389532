import type { SweepProgress } from '../../admin/workspace/sweep.ts';
import type { Finding } from '../../model/foreign-edits.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { printable } from '../../platform/lib/text.ts';
import type { SweepReport } from '../../store/workspace/workspace-sweeps.ts';
import { type AddCommands, type Output, PARTIAL, say } from '../command.ts';
import { plural, span } from '../words.ts';
import { type CommandContext, requestCommand } from '../workspace-command.ts';

/** Milliseconds between two polls of the progress, and between two reports. */
const POLL_EVERY = 1_000;
const REPORT_EVERY = 10_000;

const HELP = `
A sweep lists the tasks and the pull requests of the workspace, taking only quota that nothing else needs, and compares them with
what worksync knows. It repairs records that somebody changed; tasks, links and documents that people changed stay as they are.
The daemon sweeps once a day (workspace.sweep). This command starts a sweep now, or shows the running one; you may end it at any time.`;

/** `worksync sweep`: compares the workspace's own lists with the stored state. */
export const addSweep: AddCommands = (program, setting) => {
  requestCommand(program, setting, {
    usage: 'sweep',
    description: 'compare the workspace with what worksync knows, and repair records that somebody changed',
    example: 'sweep --json',
    help: HELP,
    costsQuota: true,
    async run(context) {
      const { isNew } = await context.request('sweep', {});
      if (!isNew) say('a sweep is already running');
      return follow(context);
    },
  });
};

/** Shows the progress until everything is compared and repaired. Without a daemon, the stages run in this process. */
async function follow({ request, partition, session }: CommandContext): Promise<Output> {
  const { clock } = session.parts;
  partition?.startUnscheduled();
  let reportedAt = Number.NEGATIVE_INFINITY;
  for (;;) {
    const progress = await request('sweep-progress', {});
    const { report, state } = progress;
    const isDone = report?.finishedAt != null && report.repairs.waiting === 0;
    if (isDone || (state !== null && partition !== undefined)) {
      if (state !== null) say(printable(state));
      const code = isDone && report.repairs.held === 0 ? 0 : PARTIAL;
      return { text: report ? describeEnd(report) : 'nothing was compared', json: [progress], code };
    }
    if (clock.monotonic() - reportedAt >= REPORT_EVERY) {
      reportedAt = clock.monotonic();
      say(printable(describeProgress(progress)));
    }
    await sleep(clock, POLL_EVERY);
  }
}

function describeProgress({ report, state, listed, waitsFor }: SweepProgress): string {
  const part =
    report?.finishedAt == null
      ? `${plural(listed, 'record')} listed so far: ${waitsFor ?? 'the sweep has not begun'}`
      : describeRound(report);
  return state === null ? part : `${part}; ${state}`;
}

function describeEnd(report: NonNullable<SweepProgress['report']>): string {
  const took = span((report.finishedAt ?? report.startedAt) - report.startedAt);
  return [
    `${describeRound(report)}, in ${took}`,
    ...report.latest.map(({ what, label }) => printable(`  ${WORDS[what][0]}: ${label}`)),
  ].join('\n');
}

/** Describes the counts and findings of a round in one line. */
export function describeRound({ tasks, records, found, repairs }: SweepReport): string {
  const wrong = found['record-changed'] + found['record-missing'];
  const left = [
    ...(repairs.waiting > 0 ? [`${repairs.waiting} waiting`] : []),
    ...(repairs.held > 0 ? [`${repairs.held} held`] : []),
  ];
  const byPeople = (Object.keys(WORDS) as Finding[]).filter((what) => !what.startsWith('record-') && found[what] > 0);
  const words = [
    `${plural(tasks, 'task')} and ${plural(records, 'record')} compared`,
    wrong === 0
      ? 'nothing to repair'
      : `${plural(repairs.done, 'record')} repaired${left.map((each) => `, ${each}`).join('')}`,
    ...(byPeople.length > 0
      ? [`changed by people: ${byPeople.map((what) => countOf(what, found[what])).join(', ')}`]
      : []),
  ];
  return words.join('; ');
}

function countOf(what: Finding, count: number): string {
  const [one, many] = WORDS[what];
  return count === 1 ? `1 ${one}` : `${count} ${many}`;
}

const WORDS: Readonly<Record<Finding, readonly [one: string, many: string]>> = {
  'record-changed': ['record changed', 'records changed'],
  'record-missing': ['record missing', 'records missing'],
  'task-changed': ['task changed', 'tasks changed'],
  'task-missing': ['task missing', 'tasks missing'],
  'link-removed': ['link removed', 'links removed'],
  'link-added': ['link added', 'links added'],
  'document-moved': ['document moved', 'documents moved'],
};
