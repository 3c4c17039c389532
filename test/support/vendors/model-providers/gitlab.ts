import { altered, fixture, type ModelProvider, type State, seconds } from './provider.ts';

const HOOK = fixture('gitlab', 'merge_request.open');
const NOTE = fixture('gitlab', 'note.on-merge-request');
const REST = fixture('gitlab', 'merge_requests.get') as { project_id: unknown; iid: unknown };

const WORDS: Readonly<Record<string, string>> = { open: 'opened', closed: 'closed', merged: 'merged' };
const people = (names: unknown) => (names as string[]).map((username) => ({ username }));
const ids = (names: unknown) => (names as string[]).map((name) => name.length);
const titles = (names: unknown) => (names as string[]).map((title) => ({ title }));

/** To the second, in a spelling of its own. */
function attributesOf(state: State, at: number) {
  return {
    title: state['title'],
    description: state['description'],
    draft: state['draft'],
    state: WORDS[state['state'] as string],
    target_branch: state['baseBranch'],
    assignee_ids: ids(state['assignees']),
    reviewer_ids: ids(state['reviewers']),
    updated_at: seconds(at).replace('T', ' ').replace('Z', ' UTC'),
  };
}

function within(path: string, fields: Readonly<Record<string, unknown>>) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [`${path}.${name}`, value]));
}

/** Lists of people are left out where nobody is in them. */
function listed(names: unknown) {
  return (names as string[]).length === 0 ? undefined : people(names);
}

function restOf(state: State, at: number) {
  return altered(REST, {
    title: state['title'],
    description: state['description'],
    draft: state['draft'],
    state: WORDS[state['state'] as string],
    target_branch: state['baseBranch'],
    labels: state['labels'],
    assignees: people(state['assignees']),
    reviewers: people(state['reviewers']),
    updated_at: new Date(at).toISOString(),
    merged_at: state['state'] === 'merged' ? new Date(at).toISOString() : null,
  });
}

/** Webhooks tell times to the second, the API to the millisecond. */
export const gitlab: ModelProvider = {
  id: 'gitlab',
  options: { projects: ['acme/platform/api'] },
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
  webhook: (state, at) => ({
    event: 'Merge Request Hook',
    payload: altered(HOOK, {
      ...within('object_attributes', attributesOf(state, at)),
      labels: titles(state['labels']),
      assignees: listed(state['assignees']),
      reviewers: listed(state['reviewers']),
    }),
  }),
  others: [
    (state, at) => ({
      event: 'Note Hook',
      payload: altered(NOTE, {
        ...within('merge_request', attributesOf(state, at)),
        'merge_request.labels': titles(state['labels']),
      }),
    }),
  ],
  page: (state, at) => ({ event: 'merge_requests.list', payload: [restOf(state, at)] }),
  fetched: (state, at) => ({ event: 'merge_requests.get', payload: restOf(state, at) }),
  gone: (at) => {
    const { project_id, iid } = REST;
    return { event: 'merge_requests.gone', payload: { project_id, iid, seen_at: new Date(at).toISOString() } };
  },
};
