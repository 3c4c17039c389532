import { altered, fixture, type ModelProvider, type State, seconds } from './provider.ts';

const HOOK = fixture('gitlab', 'issue.open');
const NOTE = fixture('gitlab', 'note.on-issue');
const REST = fixture('gitlab', 'issues.get');
const GONE = fixture('gitlab', 'issues.gone');

const WORDS: Readonly<Record<string, string>> = { open: 'opened', done: 'closed' };
const people = (names: unknown) => (names as string[]).map((username) => ({ username }));
const titles = (names: unknown) => (names as string[]).map((title) => ({ title }));

function fieldsOf(state: State) {
  return { title: state['title'], description: state['description'], state: WORDS[state['state'] as string] };
}

/** Where webhooks keep them, in their spelling of times. */
function attributesOf(path: string, state: State, at: number) {
  const numbers = (state['assignees'] as string[]).map((name) => name.length);
  const updated = seconds(at).replace('T', ' ').replace('Z', ' UTC');
  const fields = { ...fieldsOf(state), assignee_ids: numbers, updated_at: updated };
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [`${path}.${name}`, value]));
}

function restOf(state: State, at: number) {
  return altered(REST, {
    ...fieldsOf(state),
    labels: state['labels'],
    assignees: people(state['assignees']),
    updated_at: new Date(at).toISOString(),
  });
}

/** Beside its merge requests. */
export const gitlabIssues: ModelProvider = {
  id: 'gitlab',
  options: { projects: ['acme/platform/api'], issues: true },
  values: {
    title: ['A bug', 'Another'],
    // What holds an image is written otherwise in webhooks: it is fetched.
    description: ['Text', null, 'See ![it](/uploads/it.png)'],
    state: ['open', 'done'],
    labels: [[], ['bug'], ['api', 'bug']],
    assignees: [[], ['ada'], ['ada', 'ben']],
  },
  final: [],
  webhook: (state, at) => ({
    event: 'Issue Hook',
    payload: altered(HOOK, {
      ...attributesOf('object_attributes', state, at),
      labels: titles(state['labels']),
      // Left out where nobody is in it.
      assignees: (state['assignees'] as string[]).length === 0 ? undefined : people(state['assignees']),
    }),
  }),
  others: [
    (state, at) => ({
      event: 'Note Hook',
      payload: altered(NOTE, { ...attributesOf('issue', state, at), 'issue.labels': titles(state['labels']) }),
    }),
  ],
  page: (state, at) => ({ event: 'issues.list', payload: [restOf(state, at)] }),
  fetched: (state, at) => ({ event: 'issues.get', payload: restOf(state, at) }),
  gone: (at) => ({ event: 'issues.gone', payload: altered(GONE, { seen_at: new Date(at).toISOString() }) }),
  // As one that was made confidential is told of.
  removed: (at) => ({
    event: 'Confidential Issue Hook',
    payload: altered(HOOK, {
      'object_attributes.confidential': true,
      'object_attributes.updated_at': new Date(at).toISOString(),
    }),
  }),
};
