import { altered, fixture, type ModelProvider, type State, seconds } from './provider.ts';

const UPDATED = fixture('redmine', 'issue.updated');
const ISSUE = (fixture('redmine', 'issues.get') as { issue: object }).issue;
const GONE = fixture('redmine', 'issues.gone');
const DELETED = fixture('redmine', 'issue.deleted');

const STATUSES: Readonly<Record<string, object>> = {
  open: { id: 1, name: 'New', is_closed: false },
  in_progress: { id: 2, name: 'In Progress', is_closed: false },
  done: { id: 5, name: 'Closed', is_closed: true },
};

/** Leaves out absent people. */
function issueOf(state: State, at: number) {
  const [assignee] = state['assignees'] as string[];
  return altered(ISSUE, {
    subject: state['title'],
    description: state['description'],
    status: STATUSES[state['state'] as string],
    'priority.name': state['priority'],
    assigned_to: assignee === undefined ? undefined : { id: Number(assignee), name: 'Ben' },
    updated_on: seconds(at),
  });
}

/** Webhooks are taken for no more than which issue it is. */
export const redmine: ModelProvider = {
  id: 'redmine',
  options: { url: 'https://redmine.example.com', apiKey: 'key-model', projects: ['website'] },
  values: {
    title: ['A bug', 'Another'],
    description: ['Text', null],
    state: ['open', 'in_progress', 'done'],
    priority: ['Normal', 'High'],
    assignees: [[], ['9']],
  },
  final: [],
  webhook: () => ({ event: 'webhook', payload: UPDATED }),
  others: [],
  page: (state, at) => ({ event: 'issues.list', payload: { issues: [issueOf(state, at)] } }),
  fetched: (state, at) => ({ event: 'issues.get', payload: { issue: issueOf(state, at) } }),
  gone: (at) => ({ event: 'issues.gone', payload: altered(GONE, { seenAt: new Date(at).toISOString() }) }),
  removed: () => ({ event: 'webhook', payload: DELETED }),
};
