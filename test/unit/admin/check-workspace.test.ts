import { describe, expect, it } from 'vitest';
import { checkWorkspace } from '../../../src/admin/check-workspace.ts';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import { exitCodeOf } from '../../../src/cli/check.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import { configureLinks } from '../../../src/store/server-capabilities.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const TASK = { taskId: 't1', key: 'T-1' };
const refused = (status: number, own = true) => new SyncError('refused', 'why', { status, own });

interface Parts {
  readonly tasks?: readonly object[] | Error;
  readonly links?: Error;
  readonly task?: Error;
  readonly workflow?: object;
  readonly records?: Error;
  readonly mirror?: 'auto' | 'record' | 'off';
  readonly workspace?: object;
  readonly areIdempotent?: boolean;
  readonly causes?: readonly object[];
}

/** The findings as lines, and the requests that they took. */
async function check({ tasks = [TASK], links, task, workflow, records, mirror = 'auto', ...parts }: Parts) {
  const store = await openTestStore();
  await configureLinks(store.query, parts.areIdempotent ?? false);
  const asked: string[] = [];
  const answer = (name: string, body: object | Error | undefined) => async (given: { query?: object }) => {
    asked.push(`${name} ${JSON.stringify(given.query ?? {})}`);
    if (body instanceof Error) throw body;
    return { status: 200, headers: {}, body };
  };
  const workspace = {
    name: 'work',
    store,
    config: {
      workspace: { url: 'https://w.example', statuses: {}, ...parts.workspace },
      connections: [{ mirror, webhookSecrets: ['s'], writeBack: {} }],
      rules: { triage: [], workflow: workflow && { rules: [], ...workflow } },
    },
    client: {
      listTasks: answer('tasks', tasks instanceof Error ? tasks : { tasks }),
      getTask: answer('task', task ?? TASK),
      listWorkItems: answer('links', links ?? { workItems: [] }),
      listPullRequestRecords: answer('records', records ?? { pullRequests: [] }),
    },
    connections: [],
    status: async () => ({ causes: parts.causes ?? [] }),
  } as unknown as OpenWorkspace;
  const findings = await checkWorkspace(workspace);
  expect(new Set(findings.map(({ subject }) => subject))).toEqual(new Set(['work: workspace']));
  return { asked, lines: findings.map(({ level, message }) => `${level} ${message}`), findings };
}

it('reads what the daemon reads, and says what it found', async () => {
  const { asked, lines } = await check({ tasks: ['t1', 't2'].map((taskId) => ({ taskId, key: taskId })) });
  expect(asked).toEqual(['tasks {"all":true}', 'links {}', 'records {"limit":100}']);
  expect(lines).toEqual([
    'ok https://w.example answers and accepts the key: 2 tasks, without keys',
    'ok links of tasks can be read; worksync reads the links of a task before it adds the first one',
    'ok pull requests: in the workspace',
  ]);
});

it('asks no more where the tasks cannot be read', async () => {
  const { asked, lines } = await check({ tasks: new SyncError('unauthorized', 'why', { status: 401 }) });
  expect(asked).toEqual(['tasks {"all":true}']);
  expect(lines).toEqual(['error unauthorized: why (w.example)']);
});

it('is postponed while the quota is used up, which no pipeline takes for a pass', async () => {
  const { findings } = await check({ tasks: new SyncError('rate_limited', 'the window is full') });
  expect(findings).toMatchObject([{ level: 'warning', isPostponed: true }]);
  expect(exitCodeOf(findings)).toBe(75);
  expect(exitCodeOf([...findings, { level: 'error', subject: 'work', message: 'no' }])).toBe(1);
});

it('reads no links where there is no task, and no records where mirror is off', async () => {
  expect((await check({ tasks: [], mirror: 'off' })).asked).toEqual(['tasks {"all":true}']);
});

describe('task updates', () => {
  it('reads one task by its route if the rules change statuses, and updates none', async () => {
    const { asked, lines } = await check({ workflow: {} });
    expect(asked).toEqual(['tasks {"all":true}', 'links {}', 'task {}', 'records {"limit":100}']);
    const route = '/workspaces/{workspaceId}/tasks/{taskId}';
    expect(lines).toContain(`ok tasks can be read; an update sends the whole task by PUT ${route}, not tried`);
    const api = { taskUpdate: 'fields', routes: { updateTask: { method: 'PATCH', path: '/tasks/{taskId}' } } };
    const other = await check({ workflow: {}, workspace: { api } });
    expect(other.lines).toContain(
      'ok tasks can be read; an update sends the changed fields by PATCH /tasks/{taskId}, not tried',
    );
  });

  it('warns that statuses are not changed if a task cannot be read by its route', async () => {
    const { lines } = await check({ workflow: {}, task: refused(405) });
    expect(lines).toContain('warning the workspace has no route for task updates: statuses are not changed (why)');
  });
});

describe('links that cannot be read', () => {
  it.each([
    [false, 'error'],
    [true, 'warning'],
  ])('with idempotent links %s are an %s', async (areIdempotent, level) => {
    const { lines } = await check({ links: refused(405), areIdempotent });
    expect(lines).toContain(`${level} links of tasks cannot be read: why`);
  });
});

describe('a server that does not list records', () => {
  it.each<[what: string, records: Error, mirror: 'auto' | 'record', line: string]>([
    [
      'has no such route',
      refused(404),
      'auto',
      'ok pull requests: here only: the workspace has no route to record them',
    ],
    [
      'has no such route though the configuration wants it',
      refused(501),
      'record',
      'warning record_not_supported: pull requests: here only: the workspace has no route to record them',
    ],
    [
      'may be hidden by a proxy',
      refused(404, false),
      'auto',
      'warning pull requests: here so far: the workspace has not said whether it records them (why)',
    ],
    [
      'is asked too often',
      refused(429),
      'auto',
      'warning pull requests: here so far: the workspace has not said whether it records them (why)',
    ],
    [
      'fails',
      refused(503),
      'record',
      'warning pull requests: here so far: the workspace has not said whether it records them (why)',
    ],
  ])('%s', async (_what, records, mirror, line) => {
    const { lines } = await check({
      ...{ records, mirror },
      causes: [{ code: 'record_not_supported', message: 'no route', hint: 'h', verdict: 'degraded' }],
    });
    expect(lines.slice(2)).toEqual([line]);
  });
});

it('warns where records are sent to the address that opens pull requests', async () => {
  const route = { method: 'POST', path: '/workspaces/{workspaceId}/pull-requests' };
  const { lines } = await check({ workspace: { api: { routes: { recordPullRequest: route } } } });
  expect(lines.at(-1)).toBe(
    'warning records are sent to /workspaces/{workspaceId}/pull-requests, where the specification says that a POST opens a pull request at the provider',
  );
});

it('warns where the workspace has one word for several statuses', async () => {
  const { lines } = await check({ workspace: { statuses: { completed: 'Done', merged: 'Done', review: 'blocked' } } });
  expect(lines.slice(3)).toEqual([
    'warning the workspace has one word, blocked, for review and blocked: worksync reads it as review',
    'warning the workspace has one word, Done, for completed and merged: worksync reads it as completed',
  ]);
});

it('says by what webhooks are proved, and repeats what the status says of the server', async () => {
  const { lines } = await check({
    workspace: { webhook: { key: ['k'], secret: ['s'] } },
    causes: [
      { code: 'workspace_routes_off', message: 'off', hint: 'h', verdict: 'degraded' },
      { code: 'changes_held', message: 'held', hint: 'h', verdict: 'degraded' },
      { code: 'disk_full', message: 'full', hint: 'h', verdict: 'blocked' },
    ],
  });
  expect(lines.slice(-3)).toEqual([
    'ok webhooks of the workspace are accepted with the shared key and a signature',
    'warning workspace_routes_off: off',
    'error disk_full: full',
  ]);
});
