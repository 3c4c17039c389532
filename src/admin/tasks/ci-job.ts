import { SyncError } from '../../model/errors.ts';
import { GIT_PROVIDER_IDS, GIT_PROVIDERS, type GitProviderId } from '../../model/git-providers.ts';

type Variables = Readonly<Record<string, string | undefined>>;

export interface PullRequestQuery {
  /** Ways to name it, the surest first: its key, its address, or `owner/repo#12`. */
  readonly targets: readonly string[];
  readonly provider?: string;
}

export interface JobPlace {
  readonly env: Variables;
  /** The JSON of a file, if there is one of a size that can be read. */
  readonly readJson: (path: string) => unknown;
}

/** The pull request of a job, by the names that the daemon may know it by. */
export interface JobPullRequest extends PullRequestQuery {
  readonly name: string;
}

/**
 * The pull request that a job is for, from the variables of its CI service. Throws `usage` where they name none.
 * @see https://docs.github.com/en/actions/reference/workflows-and-actions/variables
 * @see https://docs.gitlab.com/ci/variables/predefined_variables
 * @see https://support.atlassian.com/bitbucket-cloud/docs/variables-and-secrets/
 * @see https://learn.microsoft.com/en-us/azure/devops/pipelines/build/variables
 * @see https://circleci.com/docs/reference/variables/
 * @see https://www.jenkins.io/doc/book/pipeline/multibranch/
 */
export function pullRequestOfJob(place: JobPlace): JobPullRequest {
  const service = SERVICES.find(({ isHere }) => isHere(place.env));
  const given = service?.find(place);
  if (given) return given;
  const why = service
    ? `${service.name} says of no pull request that this job is for one`
    : 'no CI service is known by its variables';
  throw new SyncError('usage', why, { hint: service?.hint ?? NAME_IT });
}

const NAME_IT = 'Name the pull request: --pull-request owner/repo#12, or its address.';

/** `owner/repo#12`, `group/project!12`, or an address. Throws `usage`. */
export function namedPullRequest(text: string, provider?: string): JobPullRequest {
  const address = atAddress(text);
  if (address) return provider === undefined ? address : { ...address, provider };
  if (/^[^\s#!:?]{1,500}[#!]\d{1,10}$/.test(text) && text.includes('/'))
    return { name: text, targets: [text], ...(provider === undefined ? {} : { provider }) };
  throw new SyncError('usage', `"${text}" names no pull request`, { hint: NAME_IT });
}

/** The repository in a name or an address of a pull request; undefined if it contains none. */
export function repositoryOf(target: string): string | undefined {
  const name = atAddress(target)?.name ?? target;
  const repository = /^([^\s:?#!]{1,500})[#!]\d{1,10}$/.exec(name)?.[1];
  return repository?.includes('/') ? repository : undefined;
}

interface Service {
  readonly name: string;
  readonly isHere: (env: Variables) => boolean;
  readonly find: (place: JobPlace) => JobPullRequest | undefined;
  readonly hint: string;
}

const SERVICES: readonly Service[] = [
  {
    name: 'GitHub Actions',
    isHere: (env) => env['GITHUB_ACTIONS'] === 'true',
    find: ofGitHub,
    hint: `Run the job on "pull_request". ${NAME_IT}`,
  },
  {
    name: 'GitLab CI',
    isHere: (env) => env['GITLAB_CI'] === 'true',
    find: ofGitLab,
    hint: `Run the job in merge request pipelines: rules, if: $CI_PIPELINE_SOURCE == "merge_request_event". ${NAME_IT}`,
  },
  {
    name: 'Bitbucket Pipelines',
    isHere: (env) => env['BITBUCKET_BUILD_NUMBER'] !== undefined,
    find: ofBitbucket,
    hint: `Put the step below "pull-requests:" of bitbucket-pipelines.yml. ${NAME_IT}`,
  },
  {
    name: 'Azure Pipelines',
    isHere: (env) => env['TF_BUILD'] === 'True',
    find: ofAzure,
    hint: `Run the job for pull requests ("pr:"); those of Azure Repos have no connector. ${NAME_IT}`,
  },
  {
    name: 'CircleCI',
    isHere: (env) => env['CIRCLECI'] === 'true',
    find: ofCircle,
    hint: `Choose "Only build pull requests" in the project, or run the job again once there is one. ${NAME_IT}`,
  },
  {
    name: 'Jenkins',
    isHere: (env) => env['JENKINS_URL'] !== undefined || env['BUILD_TAG']?.startsWith('jenkins-') === true,
    find: ({ env }) => atAddress(env['CHANGE_URL']),
    hint: `Use a multibranch pipeline that finds pull requests. ${NAME_IT}`,
  },
];

const NUMBER = /^\d{1,10}$/;

/**
 * Reads `refs/pull/12/merge`; in a merge queue `refs/heads/gh-readonly-queue/main/pr-12-<sha>`; for workflows on the base branch,
 * such as `pull_request_target`, the event file.
 */
function ofGitHub({ env, readJson }: JobPlace): JobPullRequest | undefined {
  const ref = env['GITHUB_REF'] ?? '';
  const queued = /^refs\/heads\/gh-readonly-queue\/.+\/pr-(\d{1,10})-[0-9a-f]+$/.exec(ref);
  const number = (/^refs\/pull\/(\d{1,10})\//.exec(ref) ?? queued)?.[1] ?? numberOfEvent(readJson, env);
  const { GITHUB_REPOSITORY: repository, GITHUB_REPOSITORY_ID: id } = env;
  if (number === undefined || !repository) return undefined;
  return pullRequest('github', serverOf(env['GITHUB_SERVER_URL'] ?? 'https://github.com'), { repository, number, id });
}

function numberOfEvent(readJson: JobPlace['readJson'], { GITHUB_EVENT_PATH: path }: Variables): string | undefined {
  const event = path ? readJson(path) : undefined;
  const number =
    at(event, 'pull_request', 'number') ??
    (at(event, 'issue', 'pull_request') && at(event, 'issue', 'number')) ??
    at(event, 'workflow_run', 'pull_requests', '0', 'number');
  return NUMBER.test(String(number)) ? String(number) : undefined;
}

function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (each, key) => (typeof each === 'object' && each !== null ? (each as Record<string, unknown>)[key] : undefined),
    value,
  );
}

/** GitLab names the open merge requests of a branch in pipelines of the branch, too. */
function ofGitLab({ env }: JobPlace): JobPullRequest | undefined {
  const server = serverOf(env['CI_SERVER_URL'] ?? 'https://gitlab.com');
  const { CI_MERGE_REQUEST_IID: number = '', CI_MERGE_REQUEST_PROJECT_PATH: project } = env;
  if (NUMBER.test(number) && project)
    return pullRequest('gitlab', server, { repository: project, number, id: env['CI_MERGE_REQUEST_PROJECT_ID'] });
  const { CI_EXTERNAL_PULL_REQUEST_IID: external = '', CI_EXTERNAL_PULL_REQUEST_TARGET_REPOSITORY: repository } = env;
  if (NUMBER.test(external) && repository) return namedPullRequest(`${repository}#${external}`, 'github');
  const [open = '', another] = (env['CI_OPEN_MERGE_REQUESTS'] ?? '').split(',');
  const [, path, iid] = /^(.+)!(\d{1,10})$/.exec(open) ?? [];
  if (!path || !iid || another !== undefined) return undefined;
  return pullRequest('gitlab', server, { repository: path, number: iid });
}

function ofBitbucket({ env }: JobPlace): JobPullRequest | undefined {
  const { BITBUCKET_PR_ID: number = '', BITBUCKET_REPO_FULL_NAME: repository, BITBUCKET_REPO_UUID: id } = env;
  if (!NUMBER.test(number) || !repository) return undefined;
  return pullRequest('bitbucket', serverOf('https://bitbucket.org'), { repository, number, id });
}

/** Repositories of other providers that Azure Pipelines builds. */
const AZURE: Readonly<Record<string, GitProviderId>> = {
  GitHub: 'github',
  GitHubEnterprise: 'github',
  Bitbucket: 'bitbucket',
};

/** GitHub's number differs from the id that Azure Pipelines gives the pull request. */
function ofAzure({ env }: JobPlace): JobPullRequest | undefined {
  const provider = AZURE[env['BUILD_REPOSITORY_PROVIDER'] ?? ''];
  const number = env['SYSTEM_PULLREQUEST_PULLREQUESTNUMBER'] || env['SYSTEM_PULLREQUEST_PULLREQUESTID'];
  const repository = env['BUILD_REPOSITORY_URI']?.replace(/(?:\.git)?\/?$/, '');
  if (!provider || !number || !repository) return undefined;
  return atAddress(`${repository}${GIT_PROVIDERS[provider].pullPath}${number}`);
}

function ofCircle({ env }: JobPlace): JobPullRequest | undefined {
  return atAddress(env['CIRCLE_PULL_REQUEST'] ?? env['CIRCLE_PULL_REQUESTS']?.split(',')[0]);
}

/** Finds a pull request by the address that people copy from a browser, on any of its tabs. */
function atAddress(text: string | undefined): JobPullRequest | undefined {
  const url = URL.parse(text ?? '');
  if (!url || !/^https?:$/.test(url.protocol) || url.href.length > LONGEST) return undefined;
  for (const provider of GIT_PROVIDER_IDS) {
    const [, repository, number] = GIT_PROVIDERS[provider].pullAddress.exec(url.pathname) ?? [];
    if (repository !== undefined && number !== undefined)
      return pullRequest(provider, serverOf(url.origin), { repository, number });
  }
  return undefined;
}

const LONGEST = 900;

interface Server {
  readonly origin: string;
  /** Without a port, as in the `host` of a connection. */
  readonly host: string;
}

function serverOf(address: string): Server {
  const url = URL.parse(address);
  if (!url) throw new SyncError('usage', `"${address}" is no address of a server`, { hint: NAME_IT });
  return { origin: url.href.endsWith('/') ? url.href.slice(0, -1) : url.href, host: url.hostname };
}

/**
 * The key outlives renames; the address is for services that do not report the id of the repository.
 *
 * @param id of the repository
 */
function pullRequest(
  provider: GitProviderId,
  { origin, host }: Server,
  {
    repository,
    number,
    id,
  }: { readonly repository: string; readonly number: string; readonly id?: string | undefined },
): JobPullRequest {
  const { sign, pullPath } = GIT_PROVIDERS[provider];
  const key = id && id.length < 100 ? [`${provider}:${host}:${id}:pull:${number}`] : [];
  return {
    provider,
    name: `${repository}${sign}${number}`,
    targets: [...key, `${origin}/${repository}${pullPath}${number}`],
  };
}
