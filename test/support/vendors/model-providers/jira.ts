import { altered, fixture, type ModelProvider, type State } from './provider.ts';

const UPDATED = fixture('jira', 'issue_updated.described') as object;
const COMMENT = fixture('jira', 'comment_created');
const REST = fixture('jira', 'issues.get');
const GONE = fixture('jira', 'issues.gone');
const DELETED = fixture('jira', 'issue_deleted');

const CATEGORIES: Readonly<Record<string, string>> = { open: 'new', in_progress: 'indeterminate', done: 'done' };

const paragraph = (text: string) => ({ type: 'paragraph', content: [{ type: 'text', text }] });
const document = (text: unknown) => text && { type: 'doc', version: 1, content: [paragraph(text as string)] };

function fieldsOf(above: string, state: State, at: number) {
  return {
    [`${above}fields.summary`]: state['title'],
    [`${above}fields.labels`]: state['labels'],
    [`${above}fields.status.statusCategory.key`]: CATEGORIES[state['state'] as string],
    [`${above}fields.assignee`]: (state['assignees'] as string[]).map((accountId) => ({ accountId }))[0] ?? null,
    // In the time zone of whoever acted.
    [`${above}fields.updated`]: new Date(at + 3_600_000).toISOString().replace('Z', '+0100'),
  };
}

function restOf(state: State, at: number) {
  return altered(REST, { ...fieldsOf('', state, at), 'fields.description': document(state['description']) });
}

/** Webhooks tell the description as wiki text, which the API does not. */
export const jira: ModelProvider = {
  id: 'jira',
  options: {
    site: 'acme.atlassian.net',
    cloudId: '6a7b1d3c-90c8-4a52-9b0e-41d2c3f5a610',
    email: 'sync@example.com',
    token: 'ATATT-model',
    projects: ['ENG'],
  },
  values: {
    title: ['A bug', 'Another'],
    description: ['Text', null],
    state: ['open', 'in_progress', 'done'],
    labels: [[], ['api'], ['api', 'bug']],
    assignees: [[], ['5b10a2844c20165700ede21g']],
  },
  final: [],
  webhook: (state, at) => ({
    event: 'webhook',
    payload: altered(UPDATED, { ...fieldsOf('issue.', state, at), 'issue.fields.description': state['description'] }),
  }),
  others: [() => ({ event: 'webhook', payload: COMMENT })],
  page: (state, at) => ({ event: 'issues.list', payload: [restOf(state, at)] }),
  fetched: (state, at) => ({ event: 'issues.get', payload: restOf(state, at) }),
  gone: (at) => ({ event: 'issues.gone', payload: altered(GONE, { seenAt: new Date(at).toISOString() }) }),
  removed: (at) => ({ event: 'webhook', payload: altered(DELETED, { timestamp: at }) }),
};
