import { altered, fixture, type ModelProvider, type State } from './provider.ts';

const UPDATED = fixture('linear', 'issue.update');
const COMMENT = fixture('linear', 'comment.create');
const NODE = fixture('linear', 'issues.get');
const GONE = fixture('linear', 'issues.gone');
const REMOVED = fixture('linear', 'issue.remove');
const BEN = 'aacdca22-6266-4c0a-ab3c-8fa70a26765c';

const TYPES: Readonly<Record<string, string>> = { open: 'unstarted', in_progress: 'started', done: 'completed' };
const PRIORITIES: Readonly<Record<string, number>> = { Urgent: 1, Low: 4 };

const names = (labels: unknown) => (labels as string[]).map((name) => ({ name }));
const assigneeOf = (state: State) => (state['assignees'] as string[])[0] ?? null;

function fieldsOf(above: string, state: State, at: number) {
  return {
    [`${above}title`]: state['title'],
    [`${above}description`]: state['description'],
    [`${above}state.type`]: TYPES[state['state'] as string],
    [`${above}priority`]: PRIORITIES[state['priority'] as string] ?? 0,
    [`${above}updatedAt`]: new Date(at).toISOString(),
  };
}

function nodeOf(state: State, at: number) {
  const assignee = assigneeOf(state);
  return altered(NODE, {
    ...fieldsOf('', state, at),
    'labels.nodes': names(state['labels']),
    assignee: assignee === null ? null : { id: assignee, email: 'ben@example.com' },
  });
}

/** A webhook has the id of an assignee, and the assignee only where there is one. */
export const linear: ModelProvider = {
  id: 'linear',
  options: { organizationId: '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6', apiKey: 'lin_api_model', teams: ['ENG'] },
  values: {
    title: ['A bug', 'Another'],
    description: ['Text', null],
    state: ['open', 'in_progress', 'done'],
    priority: [null, 'Urgent', 'Low'],
    labels: [[], ['api'], ['api', 'bug']],
    assignees: [[], [BEN]],
  },
  final: [],
  webhook: (state, at) => ({
    event: 'Issue',
    payload: altered(UPDATED, {
      ...fieldsOf('data.', state, at),
      'data.labels': names(state['labels']),
      'data.assigneeId': assigneeOf(state),
      ...(assigneeOf(state) === null ? { 'data.assignee': undefined } : {}),
    }),
  }),
  others: [() => ({ event: 'Comment', payload: COMMENT })],
  page: (state, at) => ({ event: 'issues.list', payload: [nodeOf(state, at)] }),
  fetched: (state, at) => ({ event: 'issues.get', payload: nodeOf(state, at) }),
  gone: (at) => ({ event: 'issues.gone', payload: altered(GONE, { seenAt: new Date(at).toISOString() }) }),
  // Taking it away moves no time of the issue, nor does bringing it back.
  removed: (at) => ({ event: 'Issue', payload: altered(REMOVED, { createdAt: new Date(at).toISOString() }) }),
};
