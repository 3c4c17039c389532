import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { Connection, Connector, GitProvider } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { SyncError } from '../../src/model/errors/sync-error.ts';
import type { ItemReference } from '../../src/model/item.ts';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import { silentLogger } from '../../src/platform/lib/logger.ts';
import { createTravellingClock } from '../support/clocks/travelling-clock.ts';

/**
 * Whatever a vendor answers, nothing but a `SyncError` leaves its connector. Each conversation is held once as it should go,
 * and then again and again, each of its answers in turn replaced by JSON that is not what was promised.
 */

const { signal } = new AbortController();
const NONSENSE = [null, 7, 'text', [], {}, [null], [{}], { values: [null] }, { data: null }, { error: null }];

type Answers = (method: string, path: string, body: string) => unknown;

interface Conversation {
  readonly vendor: string;
  readonly name: string;
  readonly options?: Readonly<Record<string, unknown>>;
  hold(vendor: {
    readonly connection: Connection;
    readonly git: GitProvider | undefined;
  }): Promise<unknown> | undefined;
  readonly answers: Answers;
}

const at = (kind: ItemReference['kind'], locator: Record<string, string>): ItemReference => ({
  kind,
  key: 'k',
  locator,
});
const COMMENT = { marker: '<!-- worksync:w:tasks -->', text: 'Linked to ABC-1.' };
const HERE = 'https://sync.example.test/webhooks/w/c';
const comment = (reference: ItemReference) => (given: { connection: Connection }) =>
  given.connection.comment?.(reference, COMMENT, signal);
const close = (reference: ItemReference) => (given: { connection: Connection }) =>
  given.connection.close?.(reference, signal);
const states = (given: { connection: Connection }) => given.connection.hooks?.states(HERE, signal);
const install = (given: { connection: Connection }) => given.connection.hooks?.install(HERE, 'a-secret', signal);

const UUID = '11111111-1111-4111-8111-111111111111';

const GITHUB_PULL = {
  number: 12,
  node_id: 'PR_12',
  updated_at: '2026-01-05T09:00:00Z',
  state: 'open',
  title: 'A change',
  draft: false,
  merged_at: null,
  head: { ref: 'feature', sha: 'abc' },
  base: { ref: 'main', repo: { id: 70100, full_name: 'acme/api' } },
  labels: [{ name: 'bug' }],
  assignees: [{ login: 'cy' }],
};
const github: Answers = (method, path) => {
  if (path === '/graphql') return { data: { changed: { pullRequest: { isDraft: true } } } };
  if (path === '/user') return { id: 1, login: 'worksync-bot' };
  if (path.endsWith('/comments')) return method === 'GET' ? [{ id: 5, body: COMMENT.marker, user: { id: 1 } }] : {};
  if (path.endsWith('/issues/12') && method === 'GET') return { id: 9, state: 'open' };
  if (path.endsWith('/hooks')) return method === 'GET' ? [] : { id: 3, active: true, events: ['*'], config: {} };
  if (path.endsWith('/pulls') && method === 'GET') return [GITHUB_PULL];
  return path.includes('/pulls') || path.includes('/issues') ? GITHUB_PULL : { id: 70100, full_name: 'acme/api' };
};

const GITLAB_REQUEST = {
  id: 800,
  iid: 12,
  project_id: 7,
  source_project_id: 7,
  target_project_id: 7,
  updated_at: '2026-01-05T09:00:00Z',
  state: 'opened',
  title: 'A change',
  source_branch: 'feature',
  target_branch: 'main',
};
const gitlab: Answers = (method, path) => {
  if (path === '/user') return { id: 1 };
  if (path === '/users') return [{ id: 1, username: 'ada' }];
  if (path.endsWith('/notes')) return method === 'GET' ? [{ id: 5, body: COMMENT.marker, author: { id: 1 } }] : {};
  if (path.endsWith('/hooks')) return method === 'GET' ? [] : { id: 3, url: HERE };
  if (path.endsWith('/commits')) return [{ id: 'abc' }];
  if (path.endsWith('/merge_requests') && method === 'GET') return [GITLAB_REQUEST];
  return path.includes('/merge_requests') || path.includes('/issues') ? GITLAB_REQUEST : { id: 7 };
};

const BITBUCKET_REPOSITORY = { uuid: `{${UUID}}`, full_name: 'acme/api' };
const BITBUCKET_PULL = {
  id: 12,
  updated_on: '2026-01-05T09:00:00.000000+00:00',
  state: 'OPEN',
  title: 'A change',
  reviewers: [],
  source: { branch: { name: 'feature' } },
  destination: { branch: { name: 'main' }, repository: BITBUCKET_REPOSITORY },
};
const bitbucket: Answers = (method, path) => {
  if (path === '/user') return { uuid: `{${UUID}}` };
  if (path.endsWith('/refs/branches')) return { values: [{ name: 'feature' }] };
  if (path.endsWith('/effective-default-reviewers')) return { values: [{ user: { uuid: `{${UUID}}` } }] };
  if (path.endsWith('/comments')) return method === 'GET' ? { values: [] } : {};
  if (path.endsWith('/hooks'))
    return method === 'GET' ? { values: [] } : { uuid: `{${UUID}}`, url: HERE, active: true, events: [] };
  if (path.endsWith('/pullrequests') && method === 'GET') return { values: [] };
  return path.includes('/pullrequests') ? BITBUCKET_PULL : BITBUCKET_REPOSITORY;
};

const jira: Answers = (method, path) => {
  if (path.endsWith('/myself')) return { accountId: 'me' };
  if (path.endsWith('/comment')) return { comments: [], total: 0 };
  if (path.endsWith('/webhook')) return method === 'GET' ? [] : {};
  if (path.endsWith('/transitions'))
    return { transitions: [{ id: '4', to: { name: 'Done', statusCategory: { key: 'done' } } }] };
  return { fields: { status: { statusCategory: { key: 'new' } } } };
};

const linear: Answers = (_method, _path, body) => {
  const pageInfo = { hasNextPage: false };
  const issue = { state: { type: 'started' }, team: { states: { nodes: [{ id: UUID, name: 'Done', position: 1 }] } } };
  if (/mutation/.test(body)) return { data: { changed: { success: true } } };
  if (/query Webhooks/.test(body)) return { data: { webhooks: { nodes: [], pageInfo } } };
  if (/query Teams/.test(body)) return { data: { teams: { nodes: [{ id: UUID, key: 'ENG', name: 'E' }], pageInfo } } };
  if (/query Closing/.test(body)) return { data: { issues: { nodes: [issue] } } };
  return { data: { comments: { nodes: [] } } };
};

const redmine: Answers = (method, path) => {
  if (path.endsWith('/issue_statuses.json')) return { issue_statuses: [{ id: 5, name: 'Closed', is_closed: true }] };
  if (path.endsWith('/users/current.json')) return { user: { id: 1 } };
  const journals = [{ id: 3, notes: 'worksync:w:tasks', user: { id: 1 } }];
  return method === 'GET' ? { issue: { status: { id: 5, name: 'Closed' }, journals } } : {};
};

const sentry: Answers = (method, path) => {
  if (path.endsWith('/comments/')) return method === 'GET' ? [{ id: '4', data: { text: 'worksync:w:tasks' } }] : {};
  return { id: '9', status: 'unresolved' };
};

const shortcut: Answers = (method, path) => {
  if (path.endsWith('/member')) return { id: 'me' };
  if (path.endsWith('/comments')) return method === 'GET' ? [{ id: 4, text: 'worksync:w:tasks', author_id: 'me' }] : {};
  if (path.includes('/workflows/')) return { states: [{ id: 12, name: 'Done', type: 'done', position: 1 }] };
  return { id: 9, completed: false, workflow_id: 7 };
};

const azure: Answers = (method, path) => {
  if (path.endsWith('/connectionData')) return { instanceId: UUID, authenticatedUser: { id: UUID } };
  if (path.endsWith('/comments')) return method === 'GET' ? { comments: [] } : {};
  if (path.endsWith('/subscriptions')) return method === 'GET' ? { value: [] } : {};
  if (path.endsWith('/states')) return { value: [{ name: 'Closed', category: 'Completed' }] };
  if (path.includes('/projects/')) return { id: UUID, name: 'Web' };
  return { id: 12, rev: 3, fields: { 'System.WorkItemType': 'Bug', 'System.TeamProject': 'Web' } };
};

const member = (host: string) => ({ token: 'a-token', host });
const wanted = { title: 'A change', headBranch: 'feature', baseBranch: 'main' };
const edit = { identifier: '12', title: 'Another', draft: true };

/** What members do at a git provider. */
function membersAt(vendor: string, host: string, repoId: string, answers: Answers): readonly Conversation[] {
  const labels = vendor === 'bitbucket' ? {} : { labels: ['bug'] };
  return [
    {
      ...{ vendor, answers, name: 'looks for a branch' },
      hold: ({ git }) => git?.hasBranch(member(host), { repoId, branch: 'feature' }, signal),
    },
    {
      ...{ vendor, answers, name: 'opens a pull request' },
      hold: ({ git }) => git?.openPullRequest(member(host), { repoId, ...wanted, ...labels }, signal),
    },
    {
      ...{ vendor, name: 'is told that one is open already' },
      answers: (method, path, body) =>
        method === 'POST' && /(pulls|merge_requests)$/.test(path)
          ? { status: vendor === 'gitlab' ? 409 : 422, message: 'already exists' }
          : answers(method, path, body),
      hold: ({ git }) => git?.openPullRequest(member(host), { repoId, ...wanted, ...labels }, signal).catch(expected),
    },
    {
      ...{ vendor, answers, name: 'edits a pull request' },
      hold: ({ git }) => git?.editPullRequest(member(host), { repoId, ...edit, ...labels }, signal),
    },
  ];
}

function expected(error: unknown): void {
  if (!(error instanceof SyncError)) throw error;
}

const GITHUB = { vendor: 'github', options: { token: 'ghp_x', repositories: ['acme/api'] }, answers: github };
const GITLAB = { vendor: 'gitlab', options: { token: 'glpat-x', projects: ['acme/api'] }, answers: gitlab };
const BITBUCKET = { vendor: 'bitbucket', options: { token: 'x', repositories: ['acme/api'] }, answers: bitbucket };
const JIRA = {
  vendor: 'jira',
  options: { site: 'acme.atlassian.net', cloudId: UUID, projects: ['ENG'] },
  answers: jira,
};
const LINEAR = { vendor: 'linear', options: { apiKey: 'x', organizationId: UUID, teams: ['ENG'] }, answers: linear };
const REDMINE = {
  vendor: 'redmine',
  options: { url: 'https://redmine.example.test', apiKey: 'x', projects: ['web'] },
  answers: redmine,
};
const SENTRY = { vendor: 'sentry', options: { organization: 'acme', token: 'x', projects: ['web'] }, answers: sentry };
const SHORTCUT = { vendor: 'shortcut', options: { token: 'x', teams: ['web'] }, answers: shortcut };
const AZURE = {
  vendor: 'azure-boards',
  options: { organization: 'acme', organizationId: UUID, token: 'x', projects: [UUID] },
  answers: azure,
};

const ON = {
  github: at('pull_request', { repoId: '70100', repository: 'acme/api', number: '12' }),
  githubIssue: at('work_item', { repoId: '70100', repository: 'acme/api', number: '12', id: '9' }),
  gitlab: at('pull_request', { projectId: '7', iid: '12' }),
  gitlabIssue: at('work_item', { projectId: '7', iid: '12', id: '9' }),
  bitbucket: at('pull_request', { repoId: `{${UUID}}`, repository: 'acme/api', number: '12' }),
  jira: at('work_item', { issueId: '10001', projectId: '100', issueKey: 'ENG-1' }),
  linear: at('work_item', { issueId: UUID, teamId: UUID, identifier: 'ENG-1' }),
  redmine: at('work_item', { issueId: '12', projectId: '3' }),
  sentry: at('work_item', { id: '9', projectId: '3', shortId: 'WEB-9' }),
  shortcut: at('work_item', { storyId: '9', teamId: UUID }),
  azure: at('work_item', { id: '12', projectId: UUID }),
};

const CONVERSATIONS: readonly Conversation[] = [
  ...membersAt('github', 'github.com', '70100', github),
  ...membersAt('gitlab', 'gitlab.com', '7', gitlab),
  ...membersAt('bitbucket', 'bitbucket.org', `{${UUID}}`, bitbucket),
  { ...GITHUB, name: 'comments', hold: comment(ON.github) },
  { ...GITHUB, name: 'closes an issue', hold: close(ON.githubIssue) },
  { ...GITHUB, name: 'looks at hooks', hold: states },
  { ...GITHUB, name: 'installs hooks', hold: install },
  { ...GITLAB, name: 'comments', hold: comment(ON.gitlab) },
  { ...GITLAB, name: 'closes an issue', hold: close(ON.gitlabIssue) },
  { ...GITLAB, name: 'looks at hooks', hold: states },
  { ...GITLAB, name: 'installs hooks', hold: install },
  { ...BITBUCKET, name: 'comments', hold: comment(ON.bitbucket) },
  { ...BITBUCKET, name: 'looks at hooks', hold: states },
  { ...BITBUCKET, name: 'installs hooks', hold: install },
  { ...JIRA, name: 'comments', hold: comment(ON.jira) },
  { ...JIRA, name: 'closes an issue', hold: close(ON.jira) },
  { ...JIRA, name: 'installs hooks', hold: install },
  { ...LINEAR, name: 'comments', hold: comment(ON.linear) },
  { ...LINEAR, name: 'closes an issue', hold: close(ON.linear) },
  { ...LINEAR, name: 'installs hooks', hold: install },
  { ...REDMINE, name: 'comments', hold: comment(ON.redmine) },
  { ...REDMINE, name: 'closes an issue', hold: close(ON.redmine) },
  { ...SENTRY, name: 'comments', hold: comment(ON.sentry) },
  { ...SENTRY, name: 'closes an issue', hold: close(ON.sentry) },
  { ...SHORTCUT, name: 'comments', hold: comment(ON.shortcut) },
  { ...SHORTCUT, name: 'closes a story', hold: close(ON.shortcut) },
  { ...AZURE, name: 'comments', hold: comment(ON.azure) },
  { ...AZURE, name: 'closes an issue', hold: close(ON.azure) },
  { ...AZURE, name: 'installs hooks', hold: install },
];

/** Statuses that the connectors take for success. */
function statusOf(method: string, told: unknown): number {
  const own = (told as { status?: unknown } | null)?.status;
  return typeof own === 'number' ? own : method === 'POST' ? 201 : 200;
}

/** Holds the conversation; the answer to the request of that number is replaced. Returns how many requests there were. */
async function talk({ vendor, options, answers, hold }: Conversation, replaced?: { at: number; by: unknown }) {
  const connector = connectors.find(({ id }) => id === vendor) as Connector<unknown>;
  const clock = createTravellingClock();
  let count = 0;
  const http: HttpClient = {
    async request({ method, url, body }) {
      const path = new URL(url).pathname.replace(/^\/(api\/v4|2\.0)(?=\/)/, '');
      const good = answers(method, path, String(body ?? ''));
      const isReplaced = replaced !== undefined && count++ === replaced.at;
      if (replaced === undefined) count++;
      // Linear and Jira answer every success with 200.
      const status = vendor === 'linear' ? 200 : statusOf(method, good);
      return { status, headers: {}, body: Buffer.from(JSON.stringify(isReplaced ? replaced.by : good)) };
    },
    close: async () => undefined,
  };
  const deps = { http, clock, logger: silentLogger };
  const connection = connector.connect(
    options === undefined ? connector.unrestricted?.() : connector.options.parse(options),
    deps,
  );
  await hold({ connection, git: connector.git?.(deps) });
  return count;
}

describe.each(CONVERSATIONS)('$vendor $name', (conversation) => {
  it('and nothing but a SyncError comes of answers that are not what was promised [A18]', async () => {
    const requests = await talk(conversation);
    expect(requests).toBeGreaterThan(0);
    const escaped: string[] = [];
    for (let place = 0; place < requests; place++)
      for (const by of NONSENSE) {
        const thrown: unknown = await talk(conversation, { at: place, by }).then(
          () => undefined,
          (error: unknown) => error,
        );
        const isFine = thrown === undefined || (thrown instanceof SyncError && thrown.code !== 'internal');
        if (!isFine) escaped.push(`answer ${place} as ${JSON.stringify(by)}: ${inspect(thrown, { depth: 0 })}`);
      }
    expect(escaped).toEqual([]);
  });
});
