import { altered, fixture, type ModelProvider, type State, seconds } from './provider.ts';

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
  values: {
    title: ['A fault', 'Another'],
    description: ['Text', null],
    rawState: Object.keys(RAW),
    labels: [[], ['bug'], ['api', 'bug']],
    assignees: [[], ['ada']],
    type: ['Bug', null],
  },
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
