import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { ROUTES, type Route, type RouteName } from '../../src/workspace-api/contract.ts';
import { NO_QUOTA, startWorkspaceService, type TestService } from '../support/fakes/workspace-service.ts';
import { type CommandEnded, complaintsOf, onTerminal, commandLine as run } from '../support/harness/command-line.ts';

let scratch = '';
let service: TestService;

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'worksync-commands-'));
  service = await startWorkspaceService({ quota: NO_QUOTA });
  file('team.yaml', configOf(service, 'quota: { requests: 100000, burst: 10000 }\n'));
});

afterAll(async () => {
  await service.close();
  rmSync(scratch, { recursive: true, force: true });
});

beforeEach(() => {
  vi.stubEnv('WORKSYNC_CONFIG', join(scratch, 'team.yaml'));
  vi.stubEnv('WORKSYNC_DATA', join(scratch, 'data'));
  vi.stubEnv('WORKSYNC_OAUTH_TOKEN', service.oauthToken);
});

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

function configOf({ url, apiKey }: TestService, more = ''): string {
  const hooks = 'connector: github, repositories: [acme/app], webhookSecrets: a-secret-of-sixteen-or-more, poll: off';
  return `workspace:\n  url: ${url}\n  apiKey: ${apiKey}\nconnections:\n  hooks: { ${hooks} }\n${more}`;
}

function file(name: string, content: string | Buffer): string {
  const path = join(scratch, name);
  writeFileSync(path, content);
  return path;
}

/** Requests that the key of the daemon has had at the service. */
const received = async () => (await service.service.statistics()).requests.get(service.apiKeyId)?.received ?? 0;

async function good(...args: string[]): Promise<CommandEnded> {
  const ended = await run(...args);
  expect([ended.code, complaintsOf(ended)]).toEqual([0, '']);
  return ended;
}

async function newTask(title = 'A bug'): Promise<{ taskId: string; key: string; userId: string }> {
  return (await good('tasks', 'bug', title, '--json')).json()[0];
}

describe('tasks', () => {
  it('bug creates with every field, text from a file', async () => {
    const text = file('notes.md', 'Line 1\nLine 2 🦊\n');
    const { userId } = await newTask();
    const fields = ['--description-file', text, '--priority', 'high', '--source', 'ci', '--label', 'auth'];
    const more = ['--label', 'web', '--reported-at', '2026-01-02T03:04:05+01:00', '--assignee', userId, '--json'];
    expect((await good('tasks', 'bug', 'Login fails', ...fields, ...more)).json()).toMatchObject([
      {
        ...{ kind: 'bug', title: 'Login fails', description: 'Line 1\nLine 2 🦊\n', priority: 'high' },
        ...{ source: 'ci', labels: ['auth', 'web'], assigneeIds: [userId] },
      },
    ]);
    expect((await run('tasks', 'bug', 'x', '--team', 'team_1')).stderr).toContain('unknown team team_1');
  });

  it('get takes a key in any case, or an id, each in one request', async () => {
    const { key, taskId } = await newTask('By key');
    const before = await received();
    for (const name of [key, key.toLowerCase(), taskId])
      expect((await good('tasks', 'get', name, '--json')).json()).toMatchObject([{ taskId, key }]);
    // The first look at a workspace's list of tasks is the daemon's own affair, and no command starts it.
    expect((await received()) - before).toBe(3);
    const unknown = await run('tasks', 'get', 'BUG-999');
    expect(unknown).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/remedy: .*code: {3}not_found/s),
    });
    expect((await run('tasks', 'get', '../keys')).stderr).toContain('taskId is not a valid id');
  });

  it('list pages to --limit, takes filters, and --all takes every status', async () => {
    const made: string[] = [];
    for (let n = 0; n < 105; n++) {
      made.push((await service.client().createBug({ body: { title: `Many ${n}` } }, {})).body.taskId);
    }
    const many = (await good('tasks', 'list', '--limit', '103', '--json')).json();
    expect(many.map(({ taskId }) => taskId)).toEqual(made.toReversed().slice(0, 103));
    expect((await good('tasks', 'list')).stdout.trim().split('\n')).toHaveLength(50);
    await service.client().updateTask({ taskId: made[0]!, body: { status: 'completed' } }, {});
    const done = (await good('tasks', 'list', '--status', 'completed', '--kind', 'bug', '--json')).json();
    expect(done.map(({ taskId }) => taskId)).toEqual([made[0]]);
    expect((await good('tasks', 'list', '--assignee', 'nobody')).stdout).toBe('');
    const statuses = 'statuses: { shipped: { word: completed, final: true }, completed: done }';
    const named = file('named.yaml', configOf(service).replace('\nconnections:', `\n  ${statuses}\nconnections:`));
    const place = ['--config', named, '--data', join(scratch, 'named'), '--json'];
    expect((await good('tasks', 'list', '--status', 'shipped', ...place)).json()).toMatchObject([{ taskId: made[0] }]);
    const odd = { code: 1, stdout: '', stderr: expect.stringContaining('status: expected one of open, planned') };
    expect(await run('tasks', 'list', '--status', 'odd')).toMatchObject(odd);
  });

  it('shows nothing of a title that would act on a terminal [A9]', async () => {
    const { taskId } = await newTask('\u001b[2Jgone');
    expect((await good('tasks', 'get', taskId)).stdout).not.toContain('\u001b');
  });
});

describe('links', () => {
  it('add, add again, list and remove, by the key of the task', async () => {
    const { key } = await newTask();
    const url = 'https://example.com/pull/7';
    const added = (await good('links', 'add', key, url, '--title', 'Seven', '--external-id', 'x', '--json')).json()[0];
    expect(added).toMatchObject({ url, title: 'Seven', externalId: 'x' });
    expect((await good('links', 'add', key, url)).stdout).toBe(`already there  ${added.workItemId}\n`);
    expect((await good('links', 'list', key)).stdout).toBe(`${added.workItemId}  ${url}  Seven\n`);
    await good('links', 'remove', key, added.workItemId);
    expect(await good('links', 'list', key)).toMatchObject({ stdout: '' });
    expect(await run('links', 'remove', key, added.workItemId)).toMatchObject({ code: 1 });
  });
});

describe('docs', () => {
  const create = async (content: string) =>
    (await good('docs', 'create', 'Plan', '--content', content, '--json')).json()[0].documentId as string;

  it('create, get, put, list and attach', async () => {
    const { key, taskId } = await newTask();
    const path = file('plan.md', '# Plan\n');
    const made = (await good('docs', 'create', 'Login plan', '--content-file', path, '--json')).json()[0];
    expect(made).toMatchObject({ title: 'Login plan', content: '# Plan\n', taskId: null });
    expect((await good('docs', 'get', made.documentId)).stdout).toBe('# Plan\n\n');
    const fields = ['--title', 'New', '--content', 'all new', '--status', 'completed', '--json'];
    const put = await good('docs', 'put', made.documentId, ...fields);
    expect(put.json()).toMatchObject([{ title: 'New', content: 'all new', status: 'completed' }]);
    expect((await good('docs', 'attach', key, made.documentId)).stdout).toBe(`attached  ${made.documentId}\n`);
    expect((await good('docs', 'attach', taskId, made.documentId)).stdout).toContain('already attached');
    const listed = (await good('docs', 'list', '--task', key, '--status', 'completed', '--json')).json();
    expect(listed).toMatchObject([{ documentId: made.documentId, taskId }]);
    for (const filter of ['--creator', '--updater', '--title'])
      expect((await good('docs', 'list', filter, 'nobody')).stdout).toBe('');
  });

  it('patch applies flags in their order, or a file of operations', async () => {
    const documentId = await create('alpha beta gamma');
    const flags = [
      '--replace',
      'alpha',
      '--with',
      'beta2',
      '--delete',
      ' gamma',
      '--before',
      'beta2',
      '--insert',
      '> ',
    ];
    await good('docs', 'patch', documentId, ...flags, '--after', 'beta2', '--insert', '!');
    expect((await good('docs', 'get', documentId)).stdout).toBe('> beta2! beta\n');
    const ops = file('ops.json', '{"ops":[{"kind":"replace_text","target":"> ","replacement":""}]}');
    await good('docs', 'patch', documentId, '--ops-file', ops);
    const ambiguous = await run('docs', 'patch', documentId, '--delete', 'beta');
    expect([ambiguous.code, ambiguous.stderr]).toEqual([1, expect.stringContaining('code:   conflict')]);
    expect((await good('docs', 'get', documentId)).stdout).toBe('beta2! beta\n');
  });
});

describe('prs', () => {
  it('create with --identifier records, update edits, list filters', async () => {
    const target = ['--provider', 'github', '--repo', '4711'];
    const names = ['--head', 'fix', '--base', 'main', '--title', 'Fix', '--identifier', '7', '--label', 'x', '--draft'];
    expect((await good('prs', 'create', ...target, ...names)).stdout).toMatch(/^recorded {2}7/);
    expect((await good('prs', 'create', ...target, ...names)).stdout).toMatch(/^already recorded {2}7/);
    const edit = ['--identifier', '7', '--title', 'Fixed', '--state', 'merged', '--no-draft', '--json'];
    const people = ['--reviewer', 'ada', '--assignee', 'bob', '--base', 'next'];
    const updated = (await good('prs', 'update', ...target, ...edit, ...people)).json();
    expect(updated).toMatchObject([{ title: 'Fixed', state: 'merged', draft: false, labels: ['x'] }]);
    expect(updated).toMatchObject([{ reviewers: ['ada'], assignees: ['bob'], headBranch: 'fix', baseBranch: 'next' }]);
    const listed = (await good('prs', 'list', '--repo', '4711', '--state', 'merged', '--json')).json();
    expect(listed).toEqual(updated);
    vi.spyOn(process, 'stderr', 'get').mockReturnValue(Object.assign(Object.create(process.stderr), { isTTY: true }));
    const none = await run('prs', 'list', '--repo', '4711', '--head', 'another');
    expect(none).toMatchObject({ code: 0, stdout: '', stderr: 'The list is empty.\n' });
  });
});

describe('files', () => {
  it('upload prints an address that gives the bytes to who carries the key', async () => {
    const bytes = Buffer.from([0x89, 0x50, 0x4e, 0x47, 1, 2, 3]);
    const { stdout } = await good('files', 'upload', file('shot.png', bytes));
    const reply = await fetch(stdout.trim(), { headers: { authorization: `Bearer ${service.apiKey}` } });
    expect(Buffer.from(await reply.arrayBuffer())).toEqual(bytes);
    expect((await fetch(stdout.trim())).status).toBe(401);
    expect(await run('files', 'upload', file('notes.txt', 'x'))).toMatchObject({ code: 2, stdout: '' });
  });
});

describe('keys', () => {
  it('create writes the secret for this user alone, list never shows it, revoke ends it', async () => {
    const path = join(scratch, 'ci.key');
    const created = await good('keys', 'create', '--description', 'CI', '--write-to', path, '--json');
    const secret = readFileSync(path, 'utf8').trim();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(created.stdout).not.toContain(secret);
    expect((await service.client(secret).listTasks({ query: { limit: 1 } }, {})).status).toBe(200);
    const listed = await good('keys', 'list');
    expect(listed.stdout).toContain('CI');
    expect(listed.stdout).not.toContain(secret);
    await good('keys', 'revoke', created.json()[0].apiKeyId);
    await expect(service.client(secret).listTasks({}, {})).rejects.toMatchObject({ code: 'unauthorized' });
    const once = await run('keys', 'create', '--description', 'shown once');
    expect(once.stdout).toMatch(/^wsk_\S{40,}\n$/);
  });
});

describe('api', () => {
  it('sends any operation, deletes only with --yes, and records the actions of this person', async () => {
    const { taskId } = (await good('api', 'createBug', '--body', '{"title":"By api"}', '--json')).json()[0];
    const [{ tasks }] = (await good('api', 'listTasks', '--query', 'kind=bug', '--query', 'limit=1', '--json')).json();
    expect(tasks).toMatchObject([{ taskId, title: 'By api' }]);
    const body = file('document.json', '{"title":"Plan"}');
    const attached = await good('api', 'attachDocument', taskId, '--body', `@${body}`);
    const { documentId } = JSON.parse(attached.stdout);
    const detach = ['api', 'detachDocument', taskId, documentId];
    expect(await run(...detach)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('Add --yes') });
    expect((await onTerminal(['no'], ...detach)).code).toBe(2);
    expect((await onTerminal(['yes'], ...detach)).code).toBe(0);
    expect((await good('api', 'getDocument', documentId, '--json')).json()).toMatchObject([{ taskId: null }]);
    expect((await good('api', 'deleteDocument', documentId, '--yes', '--json')).json()).toEqual([{ status: 204 }]);
    const acts = (await run('audit', '--limit', '4', '--json')).json();
    expect(acts.map(({ action }: { action: string }) => action)).toEqual([
      'deleteDocument',
      'detachDocument',
      'attachDocument',
      'createBug',
    ]);
    expect(acts).toMatchObject(acts.map(() => ({ actor: expect.stringMatching(/^command /) })));
  });

  it.each([
    ['an id that is missing', ['getTask'], /missing required argument 'taskId'/],
    ['an id that cannot be one', ['getTask', 'no id'], /taskId is not a valid id\n .*1 to 64 letters/],
    ['a body with a wrong field', ['createBug', '--body', '{"title":"x","labels":[1]}'], /--body: labels\.0: /],
    ['an unknown field', ['createBug', '--body', '{"titel":"x"}'], /no field "titel" \(did you mean "title"/],
    ['a missing field', ['createBug', '--body', '{}'], /--body: title: missing/],
    ['secrets without a file', ['createApiKey', '--body', '{"description":"x"}'], /'--write-to <file>' not specified/],
  ])('ends with 2 for %s, and asks nobody', async (_what, args, message) => {
    const before = await received();
    const { code, stderr } = await run('api', ...args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
    expect(await received()).toBe(before);
  });

  it('takes the OAuth token of a file where keys are refused, and writes secrets to a file alone', async () => {
    vi.stubEnv('WORKSYNC_OAUTH_TOKEN', '');
    expect(await run('api', 'listAgents')).toMatchObject({ code: 78, stderr: expect.stringContaining('for people') });
    const empty = await run('api', 'listAgents', '--oauth-token-file', file('empty', ''));
    expect(empty.code).toBe(78);
    expect(empty.stderr).toMatch(/--oauth-token-file: \S+ is empty/);
    expect(empty.stderr).not.toContain('WORKSYNC_OAUTH_TOKEN');
    const refused = await run('api', 'listAgents', '--oauth-token-file', file('ended', 'wst_that_has_ended'));
    expect(refused).toMatchObject({ code: 77, stderr: expect.stringMatching(/renew/i) });
    expect(refused.stderr).not.toContain('apiKey');
    const userId = await service.service.addUser({ workspaceId: service.workspaceId, name: 'Bob', role: 'member' });
    const ofMember = { workspaceId: service.workspaceId, userId, role: 'member', ttl: null } as const;
    const ofBob = (await service.service.mintToken(ofMember)).secret;
    const limited = await run('api', 'listApiKeys', '--oauth-token-file', file('member', ofBob));
    expect(limited).toMatchObject({ code: 77, stderr: expect.stringContaining('a workspace owner or admin') });
    const token = ['--oauth-token-file', file('owner', service.oauthToken)];
    expect((await good('api', 'createAgent', '--body', '{"name":"Coder"}', ...token)).stdout).toContain('"agentId"');
    const keyPath = join(scratch, 'api.key');
    await good('api', 'createApiKey', '--body', '{"description":"CI"}', '--write-to', keyPath, ...token);
    expect(readFileSync(keyPath, 'utf8').trim()).toMatch(/^wsk_[\w-]+$/);
    const path = join(scratch, 'hook.key');
    const body = JSON.stringify({ url: `${service.url}/hook` });
    const { stdout } = await good('api', 'createWebhook', '--body', body, '--write-to', path, ...token);
    const { key, secret } = JSON.parse(readFileSync(path, 'utf8'));
    expect([statSync(path).mode & 0o777, stdout]).toEqual([0o600, expect.not.stringMatching(`${key}|${secret}`)]);
    const { webhookId } = JSON.parse(stdout);
    await good('api', 'deleteWebhook', webhookId, '--yes', ...token);
  });

  it('shows for each operation an example that the contract accepts', async () => {
    for (const name of Object.keys(ROUTES) as RouteName[]) {
      const { stdout } = await run('api', name, '--help');
      const { method, path, body }: Route = ROUTES[name];
      expect(stdout).toContain(`${method} ${path}`);
      const [, sample = 'null'] = /^Example: .* --body '(.+?)'/m.exec(stdout) ?? [];
      expect(body?.safeParse(JSON.parse(sample)).error).toBeUndefined();
    }
  });
});

describe('deliveries and items', () => {
  it('are listed, shown, and replayed only where somebody says which', async () => {
    expect((await good('deliveries', '--json')).json()).toEqual([{ deliveries: [], next: null, lookedBackTo: null }]);
    const all = await good('deliveries', 'replay', '--source', 'webhook');
    expect(all.stdout).toBe('would be judged again: 0 deliveries. Add --yes to do it.\n');
    for (const args of [['replay'], ['list', '--state', 'aplied']])
      expect((await run('deliveries', ...args)).code).toBe(2);
    expect((await run('deliveries', 'list', '--connection', 'hook')).stderr).toContain('did you mean "hooks"?');
    expect(await run('deliveries', 'show', '4711')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('not_found'),
    });
  });
});
