import { beforeAll, describe, expect, it, test } from 'vitest';
import { reasonOf } from '../../../src/admin/access/refused.ts';
import { type Asked, runAdminOperation } from '../../../src/admin/admin-operations.ts';
import { createPostponed, DELAY } from '../../../src/admin/changes/postponed.ts';
import { canBackfill, startBackfill } from '../../../src/admin/connections/backfill.ts';
import { itemsAbout, MOST_ABOUT } from '../../../src/admin/items/find-named.ts';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import { describeMirror } from '../../../src/admin/status/describe-open-workspace.ts';
import { createLagWatch } from '../../../src/admin/status/lag.ts';
import { conditionOf, judgeCondition } from '../../../src/admin/status/wait.ts';
import { namedPullRequest, pullRequestOfJob } from '../../../src/admin/tasks/ci-job.ts';
import { asSyncError, SyncError } from '../../../src/model/errors/sync-error.ts';
import { systemClock } from '../../../src/platform/lib/clock.ts';
import { blankEntity, saveEntity } from '../../../src/store/changes/entities.ts';
import type { ActiveConnection } from '../../../src/sync/workspace-context.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';
import { CONNECTION, EMPTY, statusWith } from '../../support/harness/web.ts';

describe('waiting for a condition', () => {
  /** Nothing is to come, unless the parts say so. */
  const calm = (parts: Parameters<typeof statusWith>[0] = {}, rest: Parameters<typeof statusWith>[1] = {}) =>
    statusWith({ connections: [], ...parts }, rest);

  const NAME = calm().workspaces[0]!.name;
  const SYNCED = { kind: 'synced' } as const;
  const changes = (byState: Partial<typeof EMPTY.changes.byState>) => ({
    changes: { ...EMPTY.changes, byState: { ...EMPTY.changes.byState, ...byState } },
  });
  const nothing = { waitsFor: [], needsPerson: [] };

  describe('synced', () => {
    it('is met where nothing waits', () => {
      expect(judgeCondition(SYNCED, calm())).toEqual(nothing);
    });

    it('names what is still to come', () => {
      const rows = { ...changes({ pending: 2, sending: 1 }), deliveries: { ...EMPTY.deliveries, pending: 1 } };
      const { waitsFor } = judgeCondition(SYNCED, calm({ ...rows, connections: [{ ...CONNECTION, name: 'jira' }] }));
      expect(waitsFor).toEqual([`${NAME}: 1 delivery, 3 changes, the first poll of jira`]);
    });

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

    it('is about the named workspaces only', () => {
      const broken = [{ name: 'other', code: 'config_invalid', message: 'm', hint: 'Correct it.' }];
      const status = calm({}, { broken });
      expect(judgeCondition(SYNCED, status).needsPerson).toEqual(['other is not open: config_invalid. Correct it.']);
      expect(judgeCondition(SYNCED, status, [NAME])).toEqual(nothing);
    });
  });

  it('ready waits for the components that are not', () => {
    const status = calm({}, { ready: false, components: { database: 'disk_full', server: 'ok' } });
    const { waitsFor } = judgeCondition({ kind: 'ready' }, status);
    expect(waitsFor).toEqual(['the daemon to be ready, database: disk_full']);
  });

  it('reads conditions, and suggests a workspace for what is nearly one', () => {
    expect(['ready', 'synced', 'workspace=a', 'workspace=', 'x'].map(conditionOf)).toEqual([
      { kind: 'ready' },
      { kind: 'synced' },
      { kind: 'workspace', name: 'a' },
      undefined,
      undefined,
    ]);
    const misspelt = () => judgeCondition({ kind: 'workspace', name: `${NAME}x` }, calm());
    expect(misspelt).toThrow(`(did you mean "${NAME}"?)`);
    expect(judgeCondition({ kind: 'workspace', name: NAME }, calm())).toEqual(nothing);
  });

  describe('a workspace that another replica works on', () => {
    const status = { ...calm(), elsewhere: [{ name: 'theirs', address: 'http://b:8080' }] };

    it('which told nothing of it, is waited for', () => {
      const waitsFor = ['the replica that works on theirs to answer'];
      expect(judgeCondition(SYNCED, status)).toEqual({ waitsFor, needsPerson: [] });
      expect(judgeCondition({ kind: 'workspace', name: 'theirs' }, status)).toEqual({ waitsFor, needsPerson: [] });
      expect(judgeCondition({ kind: 'workspace', name: NAME }, status)).toEqual(nothing);
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

  test('nothing is taken where no daemon runs, and not without end where one does', () => {
    const { postponed, add } = setUp();
    expect(add).toThrow(expect.objectContaining({ code: 'not_running' }));
    postponed.start();
    for (let asked = 0; asked < 100; asked++) add();
    expect(add).toThrow(expect.objectContaining({ code: 'conflict' }));
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

test('of a task that a template names everywhere some items are found, those with links first', async () => {
  const store = await openTestStore();
  const { query } = store;
  const rows = Array.from({ length: 1_000 }, (_, index) => ({
    item_key: `item ${index}`,
    name: 'BUG-1',
    reason: '{}',
  }));
  await query.insertInto('mentions').values(rows).execute();
  await saveEntity(query, blankEntity('link:z>t', 'link', { item_key: 'z', task_id: 't' }));
  await saveEntity(query, blankEntity('document:y>t', 'document', { item_key: 'y', task_id: 't' }));
  const found = await itemsAbout(query, { taskId: 't', key: 'BUG-1' });
  expect(found).toHaveLength(MOST_ABOUT);
  expect(found[0]).toBe('z');
  expect(found).not.toContain('y');
  expect(await itemsAbout(query, { taskId: 'other', key: 'BUG-2' })).toEqual([]);
});

it.each([
  [['off', 'off'], 'open', null, 'here', 'here only: mirror is off'],
  [['off', 'auto'], 'open', null, 'workspace', 'in the workspace'],
  [['auto'], 'closed', 'not_found: why', 'here', 'here only: the workspace has no route to record them'],
  [['record'], 'closed', null, 'here', 'here only: the workspace has no route to record them'],
  [['auto'], 'unknown', null, 'unknown', 'here so far: the workspace has not said whether it records them'],
  [
    ['auto'],
    'unknown',
    'server_failed: why',
    'unknown',
    'here so far: the workspace has not said whether it records them (server_failed: why)',
  ],
] as const)('%j with the route %s: %s', (modes, state, error, place, message) => {
  expect(describeMirror(modes, { records: { state, error } })).toEqual({ place, message });
});

const OF_WORKSPACE = /^The key or the signature .* workspace\.webhook/;
const OF_PROVIDER = /provider/;

it.each([
  ['a missing key', 'signature_missing', 401, '/webhooks/team/workspace', OF_WORKSPACE],
  ['a wrong key', 'signature_mismatch', 401, '/webhooks/team/workspace', OF_WORKSPACE],
  ['a wrong key of a verification, which has no body', 'http_401', 401, '/webhooks/team/workspace', OF_WORKSPACE],
  ['a missing signature of a vendor', 'signature_missing', 401, '/webhooks/team/github', OF_PROVIDER],
  ['an unknown address', 'not_found', 404, '/webhooks/team/workspace', /^No workspace or connection/],
])('names what to correct for %s', (_what, code, status, path, reason) => {
  expect(reasonOf({ code, status, path })).toMatch(reason);
});

function connectionAt(apiUrl: string): ActiveConnection {
  return { name: 'github', options: { apiUrl }, connection: { history: () => undefined } } as never;
}

it('refuses a backfill of a connection whose address has no server', async () => {
  expect(canBackfill(connectionAt('https://api.example.com'))).toBe(true);
  const demo = connectionAt('https://github.invalid/api');
  expect(canBackfill(demo)).toBe(false);
  const workspace = { connections: [demo] } as unknown as OpenWorkspace;
  await expect(startBackfill(workspace, { connection: 'github', since: null }, systemClock())).rejects.toMatchObject({
    code: 'usage',
    message: 'github takes webhooks only: https://github.invalid/api is an address without a server',
  });
});

describe('the lag of a workspace', () => {
  it('tells what half of the deliveries, and 95 of 100, did not exceed', () => {
    const watch = createLagWatch(createTravellingClock());
    for (let lag = 100; lag >= 1; lag--) watch.note(lag);
    expect(watch.report()).toEqual({ count: 100, p50: 50, p95: 95 });
  });

  it('forgets what is a day old, and of very many the first', async () => {
    const clock = createTravellingClock();
    const watch = createLagWatch(clock);
    for (let round = 0; round < 2_000; round++) watch.note(1_000);
    watch.note(5);
    expect(watch.report()).toEqual({ count: 2_000, p50: 1_000, p95: 1_000 });
    await clock.advance(86_400_001);
    watch.note(7);
    expect(watch.report()).toEqual({ count: 1, p50: 7, p95: 7 });
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
