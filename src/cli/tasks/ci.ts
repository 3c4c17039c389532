import { appendFileSync } from 'node:fs';
import { InvalidArgumentError } from 'commander';
import { type JobPullRequest, namedPullRequest, pullRequestOfJob } from '../../admin/tasks/ci-job.ts';
import type { PullRequestTasks } from '../../admin/tasks/pull-request-tasks.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { GIT_PROVIDER_IDS, GIT_PROVIDER_NAMES, type GitProviderId } from '../../model/git-providers.ts';
import { beginningOf } from '../../model/text-limits.ts';
import { environment, ownProxies, type Proxies } from '../../platform/config/daemon-options.ts';
import { createVariables, type Environment } from '../../platform/config/interpolate.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { type Clock, sleep, systemClock } from '../../platform/lib/clock.ts';
import { diskFiles } from '../../platform/lib/regular-files.ts';
import { printable, withoutEnd } from '../../platform/lib/text.ts';
import { type Failure, REFUSED } from '../../web/admin-answers.ts';
import { type AddCommands, oneOf, print, printAsIs, say, wholeNumber, withWaitNotice } from '../command.ts';
import { refusal } from '../owner.ts';
import { plural, table } from '../words.ts';

interface Flags {
  readonly url?: string;
  readonly pullRequest?: string;
  readonly provider?: GitProviderId;
  readonly require?: true;
  readonly wait: number;
  readonly json?: true;
}

const HELP = `
The token is a gateway token ("worksync gateway token create --description <purpose>" makes one), in WORKSYNC_TOKEN or in the file that WORKSYNC_TOKEN_FILE names.
It sees its own workspace only. The daemon answers from its database: no request of the quota.

Exit codes: 0 done; 1 no connection covers the pull request, or with --require it is linked to no task; 2 wrong usage or
address, or the job is for no pull request; 75 the daemon does not know the pull request yet, or did not answer; 77 the
token was refused.

Example: worksync ci --require --wait 60`;

/** The command that a job of a CI service runs, so it loads next to nothing. */
export const addCi: AddCommands = (program, { scrubber }) => {
  program
    .command('ci')
    .description('in a CI job: show which tasks its pull request is linked to')
    .option('--require', 'fail the job if the pull request is linked to no task')
    .option('--wait <seconds>', 'how long to wait for a pull request that the daemon does not know yet', seconds, 0)
    .option('--url <address>', 'address of the daemon (env: WORKSYNC_URL)')
    .option('--pull-request <name>', 'owner/repo#12 or an address, in place of what the CI service says')
    .option('--provider <name>', GIT_PROVIDER_NAMES, oneOf(GIT_PROVIDER_IDS))
    .option('--json', 'print the answer as JSON')
    .addHelpText('after', HELP)
    .exitOverride()
    .action(async (flags: Flags) => {
      const env = environment();
      const asked = askedPullRequest(flags, env);
      const { url, token } = daemonOf(flags, env);
      scrubber.add(token);
      const proxies = ownProxies(scrubber.add);
      try {
        const answer = await awaited(() => ask({ url, token, proxies }, asked), flags.wait * 1_000);
        show(answer, flags, env);
      } catch (error) {
        if (env['GITHUB_ACTIONS'] === 'true' && !flags.json) printAsIs(annotation('error', asSyncError(error)));
        throw error;
      }
    });
};

function seconds(text: string): number {
  const read = wholeNumber(text);
  if (read > 3_600) throw new InvalidArgumentError('expected at most 3600 seconds');
  return read;
}

/** Events of GitHub Actions have at most as much as its webhooks. */
const LARGEST_EVENT = 26_214_400;

function askedPullRequest({ pullRequest, provider }: Flags, env: Environment): JobPullRequest {
  if (pullRequest !== undefined) return namedPullRequest(pullRequest, provider);
  const found = pullRequestOfJob({ env, readJson });
  return provider === undefined ? found : { ...found, provider };
}

/** Returns undefined if it cannot be read. The variables alone decide then. */
function readJson(path: string): unknown {
  try {
    return JSON.parse(diskFiles.read(path, LARGEST_EVENT).bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

function daemonOf(flags: Flags, env: Environment): { readonly url: string; readonly token: string } {
  const given = flags.url ?? env['WORKSYNC_URL'] ?? '';
  const url = URL.parse(given);
  if (!url || !/^https?:$/.test(url.protocol) || url.username + url.password + url.search + url.hash !== '')
    throw new SyncError('usage', `the address of the daemon is ${given === '' ? 'missing' : 'no http(s) address'}`, {
      hint: 'Give it as WORKSYNC_URL or --url, for example https://worksync.example.com',
    });
  const token = createVariables(env).get('WORKSYNC_TOKEN');
  if (token && 'value' in token) return { url: withoutEnd(url.href, '/'), token: token.value.trim() };
  throw new SyncError('usage', token?.problem ?? 'the gateway token is missing', {
    hint: 'Make one with "worksync gateway token create --description <purpose>", and give it to the job as the secret WORKSYNC_TOKEN.',
  });
}

/** Milliseconds for one answer of the daemon. */
const ANSWER = 10_000;
/** Milliseconds between two requests. */
const PAUSE = 2_000;

/** Repeats the request until the pull request is known or the time has passed. A restarting daemon may not answer meanwhile. */
async function awaited(
  question: () => Promise<PullRequestTasks>,
  patience: number,
  clock: Clock = systemClock(),
): Promise<PullRequestTasks> {
  const until = clock.monotonic() + patience;
  for (let isSaid = false; ; isSaid = true) {
    try {
      return await question();
    } catch (thrown) {
      const error = asSyncError(thrown);
      const isFutile = error.verdict !== 'retry' && error.code !== 'not_received';
      if (isFutile) throw error;
      if (clock.monotonic() + PAUSE > until) throw patience > 0 ? afterWaiting(error) : error;
      if (!isSaid) say(`worksync: ${ciText(error.message)}; waiting for at most ${patience / 1_000} s`);
      await sleep(clock, PAUSE);
    }
  }
}

/** Replaces the remedy, because the job has waited already. */
function afterWaiting(error: SyncError): SyncError {
  if (error.code !== 'not_received') return error;
  return new SyncError(error.code, error.message, {
    hint: 'Give --wait a longer time, or look at the connection with "worksync check".',
  });
}

interface Daemon {
  readonly url: string;
  readonly token: string;
  readonly proxies: Proxies | undefined;
}

async function ask(
  { url, token, proxies }: Daemon,
  { name, targets, provider }: JobPullRequest,
): Promise<PullRequestTasks> {
  const query = new URLSearchParams(targets.map((target) => ['target', target]));
  if (provider !== undefined) query.set('provider', provider);
  const address = `${url}/ci/pull-request?${query.toString()}`;
  const { status, body } = await withWaitNotice('the daemon', ANSWER, () =>
    questionOf({ url: address, token, proxies }),
  ).catch((thrown: unknown) => {
    const error = asSyncError(thrown);
    throw error.code === 'proxy_refused' ? error : notAnswering(url, error);
  });
  if (status !== 200 && status !== REFUSED) throw wrongStatus(url, status);
  const answer = readAnswer(url, body);
  if ('failure' in answer) throw refusal(answer);
  if (answer.pullRequest !== null) return answer;
  if (answer.expectedFrom.length > 0)
    throw new SyncError(
      'not_received',
      `worksync does not know ${name} yet; ${answer.expectedFrom.join(', ')} may bring it`,
    );
  const host = targets.map((target) => URL.parse(target)?.host).find(Boolean);
  const place = host === undefined ? name : `${name} at ${host}`;
  throw new SyncError('not_found', `no connection of the workspace of this token covers ${place}`, {
    hint: 'Add its repository to a connection to this host, or use a gateway token of the workspace that has one.',
  });
}

/** Uses the client for servers behind a proxy; few jobs have to load it. */
async function questionOf({ url, token, proxies }: Daemon): Promise<Pick<HttpAnswer, 'status' | 'body'>> {
  if (!proxies) {
    const { askDaemon } = await import('../../platform/http/daemon-client.ts');
    return askDaemon({ method: 'GET', url, token, patience: ANSWER });
  }
  const { createHttpClient } = await import('../../platform/http/http-client.ts');
  const timeouts = { total: ANSWER };
  const http = createHttpClient({ timeouts, proxies });
  try {
    return await http.request({ method: 'GET', url, headers: { authorization: `Bearer ${token}` }, target: 'daemon' });
  } finally {
    await http.close();
  }
}

function notAnswering(url: string, cause: SyncError): SyncError {
  return new SyncError('not_answering', `the daemon at ${url} does not answer: ${cause.message}`, {
    cause,
    hint: 'Check WORKSYNC_URL, and that the machine of the job reaches the daemon; its port speaks plain HTTP.',
  });
}

function wrongStatus(url: string, status: number): SyncError {
  if (status === 401)
    return new SyncError('unauthorized', `the daemon at ${url} does not know the token`, {
      hint: 'WORKSYNC_TOKEN must be a gateway token that is not revoked: "worksync gateway token create --description <purpose>" makes one.',
    });
  // A proxy in front of the daemon answers while the daemon does not.
  if (status >= 500 || status === 429)
    return new SyncError('not_answering', `the daemon at ${url} answered ${status}`, {
      hint: 'See whether the daemon runs behind this address, then try again.',
    });
  return wrongAddress(`${url} answered ${status}`);
}

function readAnswer(url: string, body: Buffer): PullRequestTasks | Failure {
  try {
    const answer = JSON.parse(body.toString()) as Partial<PullRequestTasks & Failure>;
    if (typeof answer.failure?.message === 'string') return answer as Failure;
    const { pullRequest, tasks, notLinked, expectedFrom } = answer;
    if (pullRequest !== undefined && [tasks, notLinked, expectedFrom].every(Array.isArray))
      return answer as PullRequestTasks;
  } catch {
    // As below.
  }
  throw wrongAddress(`what answers at ${url} is no daemon of worksync, or one of another version`);
}

function wrongAddress(message: string): SyncError {
  return new SyncError('usage', message, {
    hint: 'Check the address: a proxy must pass /ci/ on to the daemon, and a redirect is not followed.',
  });
}

function show(answer: PullRequestTasks, { json, require: isRequired }: Flags, env: Environment): void {
  const isLinked = answer.tasks.length > 0;
  print(json ? JSON.stringify(answer) : describeTasks(answer));
  const { GITHUB_ACTIONS: actions, GITHUB_STEP_SUMMARY: summary } = env;
  if (summary) appendSummary(summary, summaryOf(answer));
  if (isLinked) return;
  const { name = '' } = answer.pullRequest ?? {};
  const error = new SyncError('not_linked', `${ciText(name)} is linked to no task`, {
    hint: `Put the key of a task, such as ${answer.example ?? 'BUG-12'}, into the title, the description or the branch of the pull request.`,
  });
  if (isRequired) throw error;
  if (actions === 'true' && !json) printAsIs(annotation('warning', error));
}

/** Reports a summary that cannot be written, and does not fail the job. */
function appendSummary(path: string, text: string): void {
  try {
    appendFileSync(path, text);
  } catch (error) {
    say(`worksync: the summary could not be written: ${(error as Error).message}`);
  }
}

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

/** Escapes all characters that Markdown or HTML interprets. */
function escaped(text: string): string {
  return ciText(text).replace(/[\\`*_{}[\]()#+!|<>&~@-]/g, (sign) => `&#${sign.codePointAt(0)};`);
}
