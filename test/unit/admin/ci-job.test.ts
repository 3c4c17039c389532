import { describe, expect, it } from 'vitest';
import { namedPullRequest, pullRequestOfJob } from '../../../src/admin/ci-job.ts';
import { asSyncError } from '../../../src/model/errors/sync-error.ts';

type Variables = Readonly<Record<string, string>>;

function found(env: Variables, event?: object) {
  const { provider, name, targets } = pullRequestOfJob({
    env,
    readJson: (path) => (path === 'event' ? event : undefined),
  });
  return [provider, name, ...targets];
}

function refusalOf(env: Variables, event?: object): string {
  try {
    return found(env, event).join();
  } catch (thrown) {
    const { code, message, hint } = asSyncError(thrown);
    return `${code}: ${message} (${hint})`;
  }
}

const GITHUB = {
  ...{ GITHUB_ACTIONS: 'true', GITHUB_SERVER_URL: 'https://github.com', GITHUB_REPOSITORY: 'acme/app' },
  ...{ GITHUB_REPOSITORY_ID: '5001', GITHUB_EVENT_PATH: 'event' },
};
const PULL = ['github', 'acme/app#7', 'github:github.com:5001:pull:7', 'https://github.com/acme/app/pull/7'];
const SHA = 'a'.repeat(40);

describe('GitHub Actions', () => {
  it.each([
    ['pull_request', 'refs/pull/7/merge', {}],
    ['a merge queue', `refs/heads/gh-readonly-queue/release/2.x/pr-7-${SHA}`, {}],
    ['pull_request_target', 'refs/heads/main', { pull_request: { number: 7 } }],
    ['issue_comment', 'refs/heads/main', { issue: { number: 7, pull_request: {} } }],
    ['workflow_run', 'refs/heads/main', { workflow_run: { pull_requests: [{ number: 7 }] } }],
  ])('%s', (_event, GITHUB_REF, event) => {
    expect(found({ ...GITHUB, GITHUB_REF }, event)).toEqual(PULL);
  });

  it('asks an Enterprise server, and does without the id of older ones', () => {
    const { GITHUB_REPOSITORY_ID: _, ...older } = GITHUB;
    const env = { ...older, GITHUB_SERVER_URL: 'https://ghe.example.com', GITHUB_REF: 'refs/pull/7/merge' };
    expect(found(env)).toEqual(['github', 'acme/app#7', 'https://ghe.example.com/acme/app/pull/7']);
  });

  it.each([
    ['a push', {}],
    ['a comment on an issue', { issue: { number: 7 } }],
    ['a number that is none', { pull_request: { number: '7/../8' } }],
    ['an event that is no object', 'text'],
  ])('no pull request: %s', (_name, event) => {
    expect(refusalOf({ ...GITHUB, GITHUB_REF: 'refs/heads/main' }, event as object)).toMatch(
      /^usage: GitHub Actions says of no pull request.*"pull_request".*--pull-request/,
    );
  });
});

const GITLAB = { GITLAB_CI: 'true', CI_SERVER_URL: 'https://gitlab.example.com' };
const MERGE = 'https://gitlab.example.com/acme/web/shop/-/merge_requests/12';

describe('GitLab CI', () => {
  it('a pipeline of a merge request', () => {
    const project = { CI_MERGE_REQUEST_PROJECT_PATH: 'acme/web/shop', CI_MERGE_REQUEST_PROJECT_ID: '278' };
    const targets = ['gitlab:gitlab.example.com:278:pull:12', MERGE];
    expect(found({ ...GITLAB, ...project, CI_MERGE_REQUEST_IID: '12' })).toEqual([
      'gitlab',
      'acme/web/shop!12',
      ...targets,
    ]);
  });

  it('a pipeline of a branch with one open merge request, not with two', () => {
    const env = { ...GITLAB, CI_OPEN_MERGE_REQUESTS: 'acme/web/shop!12' };
    expect(found(env)).toEqual(['gitlab', 'acme/web/shop!12', MERGE]);
    expect(refusalOf({ ...env, CI_OPEN_MERGE_REQUESTS: 'acme/web/shop!12,acme/web/shop!13' })).toContain(
      'merge_request_event',
    );
  });

  it('a pull request of a repository at GitHub', () => {
    const env = { CI_EXTERNAL_PULL_REQUEST_IID: '7', CI_EXTERNAL_PULL_REQUEST_TARGET_REPOSITORY: 'acme/app' };
    expect(found({ ...GITLAB, ...env })).toEqual(['github', 'acme/app#7', 'acme/app#7']);
  });
});

const APP = { GITHUB: 'https://github.com/acme/app', BITBUCKET: 'https://bitbucket.org/acme/app' };
const BITBUCKET = { BITBUCKET_BUILD_NUMBER: '3', BITBUCKET_REPO_FULL_NAME: 'acme/app' };
const AZURE = { TF_BUILD: 'True', BUILD_REPOSITORY_PROVIDER: 'GitHub', BUILD_REPOSITORY_URI: `${APP.GITHUB}.git` };
const JENKINS = { JENKINS_URL: 'https://ci.example.com' };

it.each<[service: string, env: Variables, wanted: readonly string[]]>([
  [
    'Bitbucket Pipelines',
    { ...BITBUCKET, BITBUCKET_PR_ID: '7', BITBUCKET_REPO_UUID: '{u}' },
    ['bitbucket', 'acme/app#7', 'bitbucket:bitbucket.org:{u}:pull:7', `${APP.BITBUCKET}/pull-requests/7`],
  ],
  [
    'Azure Pipelines, of GitHub: by the number, not the id',
    { ...AZURE, SYSTEM_PULLREQUEST_PULLREQUESTID: '98765432', SYSTEM_PULLREQUEST_PULLREQUESTNUMBER: '7' },
    ['github', 'acme/app#7', `${APP.GITHUB}/pull/7`],
  ],
  [
    'CircleCI',
    { CIRCLECI: 'true', CIRCLE_PULL_REQUEST: `${APP.GITHUB}/pull/7` },
    ['github', 'acme/app#7', `${APP.GITHUB}/pull/7`],
  ],
  [
    'Jenkins',
    { ...JENKINS, CHANGE_ID: '12', CHANGE_URL: 'https://gitlab.example.com/acme/web/shop/merge_requests/12' },
    ['gitlab', 'acme/web/shop!12', MERGE],
  ],
])('%s', (_name, env, wanted) => {
  expect(found(env)).toEqual(wanted);
});

it.each<[job: string, env: Variables, said: string]>([
  ['nowhere', {}, 'no CI service is known'],
  [
    'Azure Repos',
    { ...AZURE, BUILD_REPOSITORY_PROVIDER: 'TfsGit', SYSTEM_PULLREQUEST_PULLREQUESTID: '7' },
    'Azure Repos',
  ],
  ['a branch at Bitbucket', BITBUCKET, 'pull-requests:'],
  ['a branch at CircleCI', { CIRCLECI: 'true' }, 'Only build pull requests'],
  ['a branch at Jenkins', JENKINS, 'multibranch'],
])('says what to do: %s', (_name, env, said) => {
  expect(refusalOf(env)).toMatch(/^usage: /);
  expect(refusalOf(env)).toContain(said);
});

describe('--pull-request', () => {
  it.each([
    ['https://github.com/acme/app/pull/7/files?w=1#diff', 'https://github.com/acme/app/pull/7'],
    ['https://Bitbucket.org/acme/app/pull-requests/7/overview', 'https://bitbucket.org/acme/app/pull-requests/7'],
    ['https://gitlab.example.com/acme/web/shop/-/merge_requests/12/diffs', MERGE],
    ['acme/app#7', 'acme/app#7'],
    ['acme/web/shop!12', 'acme/web/shop!12'],
  ])('%s', (given, target) => {
    expect(namedPullRequest(given).targets).toEqual([target]);
  });

  it('takes the provider that is named', () => {
    const named = { name: 'acme/app#7', targets: ['acme/app#7'], provider: 'bitbucket' };
    expect(namedPullRequest('acme/app#7', 'bitbucket')).toEqual(named);
  });

  const ftp = 'ftp://github.com/acme/app/pull/7';
  it.each(['7', '#7', 'app#7', 'acme/app', 'BUG-12', ftp, APP.GITHUB, 'a b/c#7'])('refuses %s', (given) => {
    expect(() => namedPullRequest(given)).toThrow('names no pull request');
  });
});
