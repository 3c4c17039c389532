import { altered, fixture, type ModelProvider, type State, seconds } from './provider.ts';

const TEXTS = { title: ['A change', 'Another'], description: ['Text', null] };
const OF_PULL = { ...TEXTS, draft: [false, true], state: ['open', 'closed', 'merged'], baseBranch: ['main', 'next'] };
const OF_BOTH = { labels: [[], ['bug'], ['api', 'bug']], assignees: [[], ['ada'], ['ada', 'ben']] };

const CREATED = fixture('bitbucket', 'pullrequest.created') as { pullrequest: object };
const BITBUCKET_COMMENT = fixture('bitbucket', 'pullrequest.comment_created');
const BITBUCKET_GONE = fixture('bitbucket', 'pullrequests.gone');
const BITBUCKET_WORDS: Readonly<Record<string, string>> = { open: 'OPEN', merged: 'MERGED', declined: 'DECLINED' };
const [BEN, CHO] = ['{b2c0ffee-0002-4a5b-8c9d-000000000002}', '{c3c0ffee-0003-4a5b-8c9d-000000000003}'];

function bitbucketPullOf(state: State, at: number) {
  return altered(CREATED.pullrequest, {
    title: state['title'],
    description: state['description'],
    draft: state['draft'],
    state: BITBUCKET_WORDS[state['state'] as string],
    'destination.branch.name': state['baseBranch'],
    reviewers: (state['reviewers'] as string[]).map((uuid) => ({ uuid })),
    // Microseconds, of which the model has none of its own.
    updated_on: new Date(at).toISOString().replace('Z', '250+00:00'),
  });
}

/** No labels, no assignees; merged and declined are final. */
export const bitbucket: ModelProvider = {
  id: 'bitbucket',
  options: { repositories: ['acme/api'] },
  values: {
    ...OF_PULL,
    description: ['Text', ''],
    state: ['open', 'declined', 'merged'],
    reviewers: [[BEN], [], [BEN, CHO]],
  },
  final: ['merged', 'declined'],
  webhook: (state, at) => ({
    event: 'pullrequest:updated',
    payload: altered(CREATED, { pullrequest: bitbucketPullOf(state, at) }),
  }),
  others: [
    (state, at) => ({
      event: 'pullrequest:comment_created',
      payload: altered(BITBUCKET_COMMENT, { pullrequest: bitbucketPullOf(state, at) }),
    }),
  ],
  page: (state, at) => ({ event: 'pullrequests.list', payload: { values: [bitbucketPullOf(state, at)] } }),
  fetched: (state, at) => ({ event: 'pullrequests.get', payload: bitbucketPullOf(state, at) }),
  gone: (at) => ({
    event: 'pullrequests.gone',
    payload: altered(BITBUCKET_GONE, { seen_at: new Date(at).toISOString() }),
  }),
};

const OPENED = fixture('github', 'pull_request.opened') as {
  pull_request: object;
  repository: unknown;
  number: unknown;
};
const GITHUB_COMMENT = fixture('github', 'issue_comment.on-pull-request');

const githubPeople = (logins: unknown) => (logins as string[]).map((login) => ({ login }));

function githubPullOf(state: State, at: number) {
  const time = seconds(at);
  const closed = state['state'] !== 'open';
  return altered(OPENED.pull_request, {
    title: state['title'],
    body: state['description'],
    draft: state['draft'],
    state: closed ? 'closed' : 'open',
    merged: state['state'] === 'merged',
    merged_at: state['state'] === 'merged' ? time : null,
    'base.ref': state['baseBranch'],
    labels: (state['labels'] as string[]).map((name) => ({ name })),
    assignees: githubPeople(state['assignees']),
    requested_reviewers: githubPeople(state['reviewers']),
    requested_teams: [],
    updated_at: time,
  });
}

/** Times are told to the second, so changes may share one. */
export const github: ModelProvider = {
  id: 'github',
  options: { repositories: ['acme/api'] },
  values: { ...OF_PULL, ...OF_BOTH, reviewers: [['ben'], []] },
  final: ['merged'],
  webhook: (state, at) => ({
    event: 'pull_request',
    payload: altered(OPENED, { pull_request: githubPullOf(state, at) }),
  }),
  others: [
    // Reviews lack some fields of the pull request.
    (state, at) => ({
      event: 'pull_request_review',
      payload: altered(OPENED, {
        action: 'submitted',
        review: { id: 1, state: 'approved' },
        pull_request: altered(githubPullOf(state, at), { merged: undefined, draft: undefined }),
      }),
    }),
    () => ({ event: 'issue_comment', payload: GITHUB_COMMENT }),
  ],
  page: (state, at) => ({ event: 'pulls.list', payload: [altered(githubPullOf(state, at), { merged: undefined })] }),
  fetched: (state, at) => ({ event: 'pulls.get', payload: githubPullOf(state, at) }),
  gone: (at) => ({
    event: 'pulls.gone',
    payload: { repository: OPENED.repository, number: OPENED.number, seen_at: seconds(at) },
  }),
};

const CLOSED = fixture('github', 'issues.closed') as { issue: { id: unknown; number: unknown }; repository: unknown };
const LIST = fixture('github', 'issues.list') as object;
const ONE = fixture('github', 'issues.get') as object;

const RAW: Readonly<Record<string, { state: string; state_reason: string | null }>> = {
  open: { state: 'open', state_reason: null },
  'open (reopened)': { state: 'open', state_reason: 'reopened' },
  'closed (completed)': { state: 'closed', state_reason: 'completed' },
  'closed (not_planned)': { state: 'closed', state_reason: 'not_planned' },
};

function issueOf(state: State, at: number) {
  const type = state['type'] as string | null;
  return altered(CLOSED.issue, {
    ...RAW[state['rawState'] as string],
    title: state['title'],
    body: state['description'],
    labels: (state['labels'] as string[]).map((name) => ({ name })),
    assignees: (state['assignees'] as string[]).map((login) => ({ login })),
    type: type === null ? null : { name: type },
    updated_at: seconds(at),
  });
}

/** The other kind of thing that GitHub has. */
export const githubIssues: ModelProvider = {
  id: 'github',
  options: { repositories: ['acme/api'], issues: true },
  values: { ...TEXTS, ...OF_BOTH, rawState: Object.keys(RAW), type: ['Bug', null] },
  final: [],
  webhook: (state, at) => ({ event: 'issues', payload: altered(CLOSED, { issue: issueOf(state, at) }) }),
  others: [
    (state, at) => ({
      event: 'issue_comment',
      payload: altered(CLOSED, { action: 'deleted', comment: { id: 1 }, issue: issueOf(state, at) }),
    }),
  ],
  page: (state, at) => ({ event: 'issues.list', payload: altered(LIST, { issues: [issueOf(state, at)] }) }),
  fetched: (state, at) => ({ event: 'issues.get', payload: altered(ONE, { issue: issueOf(state, at) }) }),
  gone: (at) => {
    const { repository, issue } = CLOSED;
    return { event: 'issues.gone', payload: { repository, number: issue.number, id: issue.id, seen_at: seconds(at) } };
  },
  removed: () => ({ event: 'issues', payload: altered(CLOSED, { action: 'deleted' }) }),
};

const GITLAB_HOOK = fixture('gitlab', 'merge_request.open');
const GITLAB_NOTE = fixture('gitlab', 'note.on-merge-request');
const GITLAB_REST = fixture('gitlab', 'merge_requests.get') as { project_id: unknown; iid: unknown };

const GITLAB_WORDS: Readonly<Record<string, string>> = { open: 'opened', closed: 'closed', merged: 'merged' };
const gitlabPeople = (names: unknown) => (names as string[]).map((username) => ({ username }));
const ids = (names: unknown) => (names as string[]).map((name) => name.length);
/** To the second, in a spelling of its own. */
const hookTime = (at: number) => seconds(at).replace('T', ' ').replace('Z', ' UTC');
const titles = (names: unknown) => (names as string[]).map((title) => ({ title }));

function gitlabAttributesOf(state: State, at: number) {
  return {
    title: state['title'],
    description: state['description'],
    draft: state['draft'],
    state: GITLAB_WORDS[state['state'] as string],
    target_branch: state['baseBranch'],
    assignee_ids: ids(state['assignees']),
    reviewer_ids: ids(state['reviewers']),
    updated_at: hookTime(at),
  };
}

function within(path: string, fields: Readonly<Record<string, unknown>>) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [`${path}.${name}`, value]));
}

/** Lists of people are left out where nobody is in them. */
function listed(names: unknown) {
  return (names as string[]).length === 0 ? undefined : gitlabPeople(names);
}

function gitlabRestOf(state: State, at: number) {
  return altered(GITLAB_REST, {
    title: state['title'],
    description: state['description'],
    draft: state['draft'],
    state: GITLAB_WORDS[state['state'] as string],
    target_branch: state['baseBranch'],
    labels: state['labels'],
    assignees: gitlabPeople(state['assignees']),
    reviewers: gitlabPeople(state['reviewers']),
    updated_at: new Date(at).toISOString(),
    merged_at: state['state'] === 'merged' ? new Date(at).toISOString() : null,
  });
}

/** Webhooks tell times to the second, the API to the millisecond. */
export const gitlab: ModelProvider = {
  id: 'gitlab',
  options: { projects: ['acme/platform/api'] },
  values: { ...OF_PULL, ...OF_BOTH, reviewers: [['ben'], []] },
  final: ['merged'],
  webhook: (state, at) => ({
    event: 'Merge Request Hook',
    payload: altered(GITLAB_HOOK, {
      ...within('object_attributes', gitlabAttributesOf(state, at)),
      labels: titles(state['labels']),
      assignees: listed(state['assignees']),
      reviewers: listed(state['reviewers']),
    }),
  }),
  others: [
    (state, at) => ({
      event: 'Note Hook',
      payload: altered(GITLAB_NOTE, {
        ...within('merge_request', gitlabAttributesOf(state, at)),
        'merge_request.labels': titles(state['labels']),
      }),
    }),
  ],
  page: (state, at) => ({ event: 'merge_requests.list', payload: [gitlabRestOf(state, at)] }),
  fetched: (state, at) => ({ event: 'merge_requests.get', payload: gitlabRestOf(state, at) }),
  gone: (at) => {
    const { project_id, iid } = GITLAB_REST;
    return { event: 'merge_requests.gone', payload: { project_id, iid, seen_at: new Date(at).toISOString() } };
  },
};

const GITLAB_ISSUE_HOOK = fixture('gitlab', 'issue.open');
const GITLAB_ISSUE_NOTE = fixture('gitlab', 'note.on-issue');
const GITLAB_ISSUE_REST = fixture('gitlab', 'issues.get');
const GITLAB_ISSUE_GONE = fixture('gitlab', 'issues.gone');

const GITLAB_ISSUE_WORDS: Readonly<Record<string, string>> = { open: 'opened', done: 'closed' };

function fieldsOf(state: State) {
  return {
    title: state['title'],
    description: state['description'],
    state: GITLAB_ISSUE_WORDS[state['state'] as string],
  };
}

/** Where webhooks keep them, in their spelling of times. */
function gitlabIssueAttributesOf(path: string, state: State, at: number) {
  return within(path, { ...fieldsOf(state), assignee_ids: ids(state['assignees']), updated_at: hookTime(at) });
}

function gitlabIssueRestOf(state: State, at: number) {
  return altered(GITLAB_ISSUE_REST, {
    ...fieldsOf(state),
    labels: state['labels'],
    assignees: gitlabPeople(state['assignees']),
    updated_at: new Date(at).toISOString(),
  });
}

/** Beside its merge requests. */
export const gitlabIssues: ModelProvider = {
  id: 'gitlab',
  options: { projects: ['acme/platform/api'], issues: true },
  values: {
    ...{ ...TEXTS, ...OF_BOTH, state: ['open', 'done'] },
    // A webhook writes an image in another way, so this description is fetched.
    description: ['Text', null, 'See ![it](/uploads/it.png)'],
  },
  final: [],
  webhook: (state, at) => ({
    event: 'Issue Hook',
    payload: altered(GITLAB_ISSUE_HOOK, {
      ...gitlabIssueAttributesOf('object_attributes', state, at),
      labels: titles(state['labels']),
      assignees: listed(state['assignees']),
    }),
  }),
  others: [
    (state, at) => ({
      event: 'Note Hook',
      payload: altered(GITLAB_ISSUE_NOTE, {
        ...gitlabIssueAttributesOf('issue', state, at),
        'issue.labels': titles(state['labels']),
      }),
    }),
  ],
  page: (state, at) => ({ event: 'issues.list', payload: [gitlabIssueRestOf(state, at)] }),
  fetched: (state, at) => ({ event: 'issues.get', payload: gitlabIssueRestOf(state, at) }),
  gone: (at) => ({
    event: 'issues.gone',
    payload: altered(GITLAB_ISSUE_GONE, { seen_at: new Date(at).toISOString() }),
  }),
  // A hook for an issue that was made confidential.
  removed: (at) => ({
    event: 'Confidential Issue Hook',
    payload: altered(GITLAB_ISSUE_HOOK, {
      'object_attributes.confidential': true,
      'object_attributes.updated_at': new Date(at).toISOString(),
    }),
  }),
};
