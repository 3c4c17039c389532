import { altered, fixture, type ModelProvider, type State, seconds } from './provider.ts';

const OPENED = fixture('github', 'pull_request.opened') as {
  pull_request: object;
  repository: unknown;
  number: unknown;
};
const COMMENT = fixture('github', 'issue_comment.on-pull-request');

const people = (logins: unknown) => (logins as string[]).map((login) => ({ login }));

function pullOf(state: State, at: number) {
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
    assignees: people(state['assignees']),
    requested_reviewers: people(state['reviewers']),
    requested_teams: [],
    updated_at: time,
  });
}

/** Times are told to the second, so changes may share one. */
export const github: ModelProvider = {
  id: 'github',
  options: { repositories: ['acme/api'] },
  values: {
    title: ['A change', 'Another'],
    description: ['Text', null],
    draft: [false, true],
    state: ['open', 'closed', 'merged'],
    baseBranch: ['main', 'next'],
    labels: [[], ['bug'], ['api', 'bug']],
    assignees: [[], ['ada']],
    reviewers: [['ben'], []],
  },
  final: ['merged'],
  webhook: (state, at) => ({ event: 'pull_request', payload: altered(OPENED, { pull_request: pullOf(state, at) }) }),
  others: [
    // Reviews lack some fields of the pull request.
    (state, at) => ({
      event: 'pull_request_review',
      payload: altered(OPENED, {
        action: 'submitted',
        review: { id: 1, state: 'approved' },
        pull_request: altered(pullOf(state, at), { merged: undefined, draft: undefined }),
      }),
    }),
    () => ({ event: 'issue_comment', payload: COMMENT }),
  ],
  page: (state, at) => ({ event: 'pulls.list', payload: [altered(pullOf(state, at), { merged: undefined })] }),
  fetched: (state, at) => ({ event: 'pulls.get', payload: pullOf(state, at) }),
  gone: (at) => ({
    event: 'pulls.gone',
    payload: { repository: OPENED.repository, number: OPENED.number, seen_at: seconds(at) },
  }),
};
