import { beforeAll, describe, expect, it, test } from 'vitest';
import { type Asked, runAdminOperation } from '../../../src/admin/admin-operations.ts';
import { createPostponed, DELAY } from '../../../src/admin/changes/postponed.ts';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import { namedPullRequest, pullRequestOfJob } from '../../../src/admin/tasks/ci-job.ts';
import { judgeCondition } from '../../../src/cli/status/wait.ts';
import { asSyncError, SyncError } from '../../../src/model/errors.ts';
import { systemClock } from '../../../src/platform/lib/clock.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';
import { EMPTY, statusWith } from '../../support/harness/web.ts';

describe('waiting for a condition', () => {
  /** Nothing is to come, unless the parts say so. */
  const calm = (parts: Parameters<typeof statusWith>[0] = {}, rest: Parameters<typeof statusWith>[1] = {}) =>
    statusWith({ connections: [], ...parts }, rest);

  const NAME = calm().workspaces[0]!.name;
  const SYNCED = { kind: 'synced' } as const;
  const changes = (byState: Partial<typeof EMPTY.changes.byState>) => ({
    changes: { ...EMPTY.changes, byState: { ...EMPTY.changes.byState, ...byState } },
  });

  describe('synced', () => {
    it('says what no waiting brings about: changes that need approval, and a workspace that is halted', () => {
      expect(judgeCondition(SYNCED, calm(changes({ held: 94 })))).toEqual({
        waitsFor: [],
        needsPerson: [`${NAME}: 94 changes held; list them with "worksync held"`],
      });
      const halted = calm({
        ...changes({ pending: 5 }),
        halt: new SyncError('unauthorized', 'the key is revoked'),
      });
      expect(judgeCondition(SYNCED, halted)).toMatchObject({
        waitsFor: [],
        needsPerson: [expect.stringContaining('unauthorized: the key is revoked')],
      });
    });
  });
});

describe('postponed actions', () => {
  function setUp() {
    const clock = createTravellingClock();
    const postponed = createPostponed(clock);
    let done = 0;
    const action = { question: 'retry', asked: {}, count: 2, actor: 'command ann', auditRow: 1 } as const;
    const add = () =>
      postponed.add(action, async () => {
        done++;
      });
    return { clock, postponed, action, add, done: () => done };
  }

  test('an action is done ten seconds later, and shown with what is left until then', async () => {
    const { clock, postponed, action, add, done } = setUp();
    postponed.start();
    const now = clock.now();
    expect(add()).toEqual({ id: '1', ...action, askedAt: now, at: now + DELAY, remaining: DELAY });
    await clock.advance(4_000);
    add();
    expect(postponed.list().map(({ id, remaining }) => [id, remaining])).toEqual([
      ['1', 6_000],
      ['2', 10_000],
    ]);
    await clock.advance(6_000);
    expect([done(), postponed.list().map(({ id }) => id)]).toEqual([1, ['2']]);
    // Too late.
    expect(postponed.take('1')).toBeUndefined();
  });

  test('one that was undone, or whose daemon ended, is not done', async () => {
    const { clock, postponed, add, done } = setUp();
    postponed.start();
    const { id } = add();
    expect(postponed.take(id)).toMatchObject({ id, count: 2 });
    expect(postponed.take(id)).toBeUndefined();
    add();
    await postponed.stop();
    expect(postponed.list()).toEqual([]);
    await clock.advance(60_000);
    expect(done()).toBe(0);
    expect(add).toThrow(expect.objectContaining({ code: 'not_running' }));
  });
});

const STATES = ['applied', 'applied', 'ignored', 'pending', 'quarantined'] as const;

describe('the preview of a replay', () => {
  const statements: string[] = [];
  let store: OpenedStore;
  let workspace: OpenWorkspace;

  beforeAll(async () => {
    store = await openStore({ file: ':memory:', onStatement: (sql) => statements.push(sql) });
    const connections = [{ name: 'github' }, { name: 'tickets' }];
    workspace = { store, connections, wakeReconcile() {} } as unknown as OpenWorkspace;
    const rows = STATES.map((state, at) => ({
      ...{ connection: 'github', delivery_key: `d-${at}`, source: 'webhook' as const, event: 'pull_request', state },
      ...{ body: at === 0 ? null : Buffer.from('{}'), received_at: at },
    }));
    await store.query.insertInto('inbox').values(rows).execute();
    return () => store.close();
  });

  async function preview(wish: Partial<Asked<'replay'>>) {
    statements.length = 0;
    return runAdminOperation('replay', workspace, { ...wish, preview: true }, systemClock());
  }

  it('counts what would be judged again, and what would not and why', async () => {
    const none = { replayed: 0, quarantined: 0, pending: 0, purged: 0, own: 0, more: false };
    expect(await preview({})).toEqual({ ...none, replayed: 3, quarantined: 1, pending: 1, purged: 1 });
    expect(await preview({ state: 'applied' })).toEqual({ ...none, replayed: 1, purged: 1 });
    expect(await preview({ state: 'pending' })).toEqual({ ...none, pending: 1 });
    expect(await preview({ state: 'quarantined', connection: 'github' })).toEqual({
      ...none,
      ...{ replayed: 1, quarantined: 1 },
    });
    expect(await preview({ state: 'superseded' })).toEqual(none);
  });
});

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
    ['workflow_run', 'refs/heads/main', { workflow_run: { pull_requests: [{ number: 7 }] } }],
  ])('%s', (_event, GITHUB_REF, event) => {
    expect(found({ ...GITHUB, GITHUB_REF }, event)).toEqual(PULL);
  });

  it.each([
    ['a push', {}],
    ['a number that is none', { pull_request: { number: '7/../8' } }],
  ])('no pull request: %s', (_name, event) => {
    expect(refusalOf({ ...GITHUB, GITHUB_REF: 'refs/heads/main' }, event as object)).toMatch(
      /^usage: GitHub Actions says of no pull request.*"pull_request".*--pull-request/,
    );
  });
});

const GITLAB = { GITLAB_CI: 'true', CI_SERVER_URL: 'https://gitlab.example.com' };
const MERGE = 'https://gitlab.example.com/acme/web/shop/-/merge_requests/12';

const MERGE_IID = { CI_MERGE_REQUEST_IID: '12' };
const ONE_OPEN = { CI_OPEN_MERGE_REQUESTS: 'acme/web/shop!12' };
const APP = { GITHUB: 'https://github.com/acme/app', BITBUCKET: 'https://bitbucket.org/acme/app' };
const BITBUCKET = { BITBUCKET_BUILD_NUMBER: '3', BITBUCKET_REPO_FULL_NAME: 'acme/app' };
const AZURE = { TF_BUILD: 'True', BUILD_REPOSITORY_PROVIDER: 'GitHub', BUILD_REPOSITORY_URI: `${APP.GITHUB}.git` };
const JENKINS = { JENKINS_URL: 'https://ci.example.com' };

it.each<[service: string, env: Variables, wanted: readonly string[]]>([
  [
    'GitLab CI, of a merge request',
    { ...GITLAB, CI_MERGE_REQUEST_PROJECT_PATH: 'acme/web/shop', CI_MERGE_REQUEST_PROJECT_ID: '278', ...MERGE_IID },
    ['gitlab', 'acme/web/shop!12', 'gitlab:gitlab.example.com:278:pull:12', MERGE],
  ],
  ['GitLab CI, of a branch with one', { ...GITLAB, ...ONE_OPEN }, ['gitlab', 'acme/web/shop!12', MERGE]],
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
    'Jenkins',
    { ...JENKINS, CHANGE_ID: '12', CHANGE_URL: 'https://gitlab.example.com/acme/web/shop/merge_requests/12' },
    ['gitlab', 'acme/web/shop!12', MERGE],
  ],
])('%s', (_name, env, wanted) => {
  expect(found(env)).toEqual(wanted);
});

describe('--pull-request', () => {
  it.each([
    ['https://github.com/acme/app/pull/7/files?w=1#diff', 'https://github.com/acme/app/pull/7'],
    ['https://gitlab.example.com/acme/web/shop/-/merge_requests/12/diffs', MERGE],
    ['acme/app#7', 'acme/app#7'],
  ])('%s', (given, target) => {
    expect(namedPullRequest(given).targets).toEqual([target]);
  });

  const ftp = 'ftp://github.com/acme/app/pull/7';
  it.each(['7', '#7', 'app#7', 'acme/app', 'BUG-12', ftp, APP.GITHUB, 'a b/c#7'])('refuses %s', (given) => {
    expect(() => namedPullRequest(given)).toThrow('names no pull request');
  });
});
