import type { PullRequestTasks } from '../admin/pull-request-tasks.ts';
import type { SyncError } from '../model/errors/sync-error.ts';
import { beginningOf } from '../model/text-limits.ts';
import { plural, printable, table } from './words.ts';

/**
 * Text from outside made harmless for the log of a CI service. Services carry out what a line of the log tells them:
 * `::command::` and `##[command]` (GitHub Actions), `##vso[…]` (Azure Pipelines), `section_start:` behind an escape
 * character (GitLab). Whoever names a pull request must not command the job. No two of these signs stay together, of `###[` either.
 * @see https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
 * @see https://learn.microsoft.com/en-us/azure/devops/pipelines/scripts/logging-commands
 */
export function ciText(text: string): string {
  return beginningOf(printable(text).replaceAll(/:(?=:)|#(?=#)/g, '$& '), LONGEST);
}

const LONGEST = 300;

/** For people who read the log of the job. */
export function describeTasks({ pullRequest, tasks, notLinked }: PullRequestTasks): string {
  const { name = '', title = null } = pullRequest ?? {};
  const count = tasks.length === 0 ? 'no task' : plural(tasks.length, 'task');
  const rows = tasks.map(({ key, status, title: of, state }) =>
    [key, status ?? '', of ?? '', state === 'waiting' ? '(the link waits to be sent)' : ''].map(ciText),
  );
  return [
    `${ciText(name)}${title === null ? '' : ` "${ciText(title)}"`} is linked to ${count}`,
    ...(rows.length === 0 ? [] : [indented(table(rows))]),
    ...(notLinked.length === 0 ? [] : ['named, but not linked:']),
    ...notLinked.map(({ text, place, why }) => ciText(`  "${text}"${place === null ? '' : ` (${place})`}: ${why}`)),
  ].join('\n');
}

function indented(text: string): string {
  return text.replace(/^/gm, '  ');
}

/** A line that GitHub Actions shows beside the job. */
export function annotation(level: 'error' | 'warning', { message, hint }: Pick<SyncError, 'message' | 'hint'>): string {
  const data = `${message}. ${hint}`.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
  return `::${level} title=worksync::${data}`;
}

/** GitHub takes 1 MiB for a step; people read a few lines. */
const MOST_ROWS = 20;

/** Markdown for the summary of a job. */
export function summaryOf({ pullRequest, tasks, notLinked }: PullRequestTasks): string {
  const name = escaped(pullRequest?.name ?? '');
  if (tasks.length === 0) return `**worksync**: ${name} is linked to no task.${reasonsOf(notLinked)}\n`;
  const rows = tasks.slice(0, MOST_ROWS).map((task) => {
    const cells = [task.key, task.status ?? '', task.title ?? ''].map(escaped);
    return `| ${cells.join(' | ')} |`;
  });
  const more = tasks.length > MOST_ROWS ? `\n\n… and ${tasks.length - MOST_ROWS} more` : '';
  return `**worksync**: ${name} is linked to\n\n| task | status | title |\n| --- | --- | --- |\n${rows.join('\n')}${more}\n`;
}

function reasonsOf(notLinked: PullRequestTasks['notLinked']): string {
  const reasons = notLinked.slice(0, MOST_ROWS).map(({ text, why }) => `\n- ${escaped(text)}: ${escaped(why)}`);
  return reasons.length === 0 ? '' : ` Named, but not linked:\n${reasons.join('')}`;
}

/** Nothing of it is read as Markdown or HTML. */
function escaped(text: string): string {
  return ciText(text).replace(/[\\`*_{}[\]()#+!|<>&~@-]/g, (sign) => `&#${sign.codePointAt(0)};`);
}
