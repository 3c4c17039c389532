import { altered, fixture, type ModelProvider, type State, seconds } from './provider.ts';

const COMMON = { title: ['A bug', 'Another'], description: ['Text', null], state: ['open', 'in_progress', 'done'] };

const AZURE_UPDATED = fixture('azure-boards', 'workitem.updated');
const AZURE_COMMENT = fixture('azure-boards', 'workitem.commented');
const AZURE_GONE = fixture('azure-boards', 'workitems.gone');
const AZURE_DELETED = fixture('azure-boards', 'workitem.deleted');
const AZURE_ITEM = fixture('azure-boards', 'workitems.get') as { fields: object };
const AZURE_BEN = '74a0ab46-8b2b-6e1d-a3b2-5c3f9d0e1f2a';

const AZURE_CATEGORIES: Readonly<Record<string, string>> = {
  open: 'Proposed',
  in_progress: 'InProgress',
  done: 'Completed',
};

/** Leaves out empty fields. */
function itemOf(state: State, at: number) {
  const [assignee] = state['assignees'] as string[];
  const labels = state['labels'] as string[];
  const description = state['description'] as string | null;
  const fields: Record<string, unknown> = {
    ...AZURE_ITEM.fields,
    'System.Title': state['title'],
    'System.Description': description === null ? undefined : `<div>${description}</div>`,
    'System.Tags': labels.length === 0 ? undefined : labels.join('; '),
    'System.AssignedTo': assignee === undefined ? undefined : { id: assignee },
    'Microsoft.VSTS.Common.Priority': state['priority'] === null ? undefined : Number(state['priority']),
    'System.ChangedDate': new Date(at).toISOString(),
  };
  return altered(AZURE_ITEM, { category: AZURE_CATEGORIES[state['state'] as string], fields, rev: at });
}

/** Webhooks tell no more than which work item it is. */
export const azureBoards: ModelProvider = {
  id: 'azure-boards',
  options: {
    organization: 'acme',
    organizationId: '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6',
    token: 'pat-model',
    projects: ['Website'],
  },
  values: {
    ...COMMON,
    priority: ['1', null, '4'],
    labels: [[], ['api'], ['api', 'bug']],
    assignees: [[], [AZURE_BEN]],
  },
  final: [],
  webhook: () => ({ event: 'webhook', payload: AZURE_UPDATED }),
  others: [() => ({ event: 'webhook', payload: AZURE_COMMENT })],
  page: (state, at) => ({ event: 'workitems.list', payload: [itemOf(state, at)] }),
  fetched: (state, at) => ({ event: 'workitems.get', payload: itemOf(state, at) }),
  gone: (at) => ({ event: 'workitems.gone', payload: altered(AZURE_GONE, { seenAt: new Date(at).toISOString() }) }),
  removed: () => ({ event: 'webhook', payload: AZURE_DELETED }),
};

const GENERIC_UPDATED = fixture('generic', 'item.updated');
const GENERIC_ITEM = fixture('generic', 'items.get');
const GENERIC_GONE = fixture('generic', 'items.gone');
const GENERIC_DELETED = fixture('generic', 'item.deleted');
const FIELDS = ['title', 'description', 'state', 'rawState', 'priority', 'labels', 'assignees'];

/** The version of the fixture stands for a sender that counts none. */
function genericFieldsOf(above: string, state: State, at: number): Record<string, unknown> {
  return {
    ...Object.fromEntries(FIELDS.map((field) => [above + field, state[field]])),
    [`${above}version`]: undefined,
    [`${above}updatedAt`]: new Date(at).toISOString(),
  };
}

const item = (state: State, at: number) => altered(GENERIC_ITEM, genericFieldsOf('', state, at));

export const generic: ModelProvider = {
  id: 'generic',
  options: { system: 'desk', feedUrl: 'https://desk.example.com/feed', projects: ['web'] },
  values: {
    ...COMMON,
    rawState: ['New', 'Doing'],
    priority: ['high', null],
    labels: [[], ['api'], ['api', 'bug']],
    assignees: [[], ['jon']],
  },
  final: [],
  webhook: (state, at) => ({
    event: 'webhook',
    payload: altered(GENERIC_UPDATED, genericFieldsOf('data.', state, at)),
  }),
  others: [],
  page: (state, at) => ({ event: 'items.list', payload: [item(state, at)] }),
  fetched: (state, at) => ({ event: 'items.get', payload: item(state, at) }),
  gone: (at) => ({ event: 'items.gone', payload: altered(GENERIC_GONE, { seenAt: new Date(at).toISOString() }) }),
  removed: (at) => ({ event: 'webhook', payload: altered(GENERIC_DELETED, { timestamp: new Date(at).toISOString() }) }),
};

const JIRA_UPDATED = fixture('jira', 'issue_updated.described') as object;
const JIRA_COMMENT = fixture('jira', 'comment_created');
const REST = fixture('jira', 'issues.get');
const JIRA_GONE = fixture('jira', 'issues.gone');
const JIRA_DELETED = fixture('jira', 'issue_deleted');

const JIRA_CATEGORIES: Readonly<Record<string, string>> = { open: 'new', in_progress: 'indeterminate', done: 'done' };

const paragraph = (text: string) => ({ type: 'paragraph', content: [{ type: 'text', text }] });
const document = (text: unknown) => text && { type: 'doc', version: 1, content: [paragraph(text as string)] };

function jiraFieldsOf(above: string, state: State, at: number) {
  return {
    [`${above}fields.summary`]: state['title'],
    [`${above}fields.labels`]: state['labels'],
    [`${above}fields.status.statusCategory.key`]: JIRA_CATEGORIES[state['state'] as string],
    [`${above}fields.assignee`]: (state['assignees'] as string[]).map((accountId) => ({ accountId }))[0] ?? null,
    // In the time zone of whoever acted.
    [`${above}fields.updated`]: new Date(at + 3_600_000).toISOString().replace('Z', '+0100'),
  };
}

function restOf(state: State, at: number) {
  return altered(REST, { ...jiraFieldsOf('', state, at), 'fields.description': document(state['description']) });
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
    ...COMMON,
    labels: [[], ['api'], ['api', 'bug']],
    assignees: [[], ['5b10a2844c20165700ede21g']],
  },
  final: [],
  webhook: (state, at) => ({
    event: 'webhook',
    payload: altered(JIRA_UPDATED, {
      ...jiraFieldsOf('issue.', state, at),
      'issue.fields.description': state['description'],
    }),
  }),
  others: [() => ({ event: 'webhook', payload: JIRA_COMMENT })],
  page: (state, at) => ({ event: 'issues.list', payload: [restOf(state, at)] }),
  fetched: (state, at) => ({ event: 'issues.get', payload: restOf(state, at) }),
  gone: (at) => ({ event: 'issues.gone', payload: altered(JIRA_GONE, { seenAt: new Date(at).toISOString() }) }),
  removed: (at) => ({ event: 'webhook', payload: altered(JIRA_DELETED, { timestamp: at }) }),
};

const LINEAR_UPDATED = fixture('linear', 'issue.update');
const LINEAR_COMMENT = fixture('linear', 'comment.create');
const NODE = fixture('linear', 'issues.get');
const LINEAR_GONE = fixture('linear', 'issues.gone');
const REMOVED = fixture('linear', 'issue.remove');
const LINEAR_BEN = 'aacdca22-6266-4c0a-ab3c-8fa70a26765c';

const TYPES: Readonly<Record<string, string>> = { open: 'unstarted', in_progress: 'started', done: 'completed' };
const PRIORITIES: Readonly<Record<string, number>> = { Urgent: 1, Low: 4 };

const names = (labels: unknown) => (labels as string[]).map((name) => ({ name }));
const assigneeOf = (state: State) => (state['assignees'] as string[])[0] ?? null;

function linearFieldsOf(above: string, state: State, at: number) {
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
    ...linearFieldsOf('', state, at),
    'labels.nodes': names(state['labels']),
    assignee: assignee === null ? null : { id: assignee, email: 'ben@example.com' },
  });
}

/** A webhook has the id of an assignee, and the assignee only where there is one. */
export const linear: ModelProvider = {
  id: 'linear',
  options: { organizationId: '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6', apiKey: 'lin_api_model', teams: ['ENG'] },
  values: {
    ...COMMON,
    priority: [null, 'Urgent', 'Low'],
    labels: [[], ['api'], ['api', 'bug']],
    assignees: [[], [LINEAR_BEN]],
  },
  final: [],
  webhook: (state, at) => ({
    event: 'Issue',
    payload: altered(LINEAR_UPDATED, {
      ...linearFieldsOf('data.', state, at),
      'data.labels': names(state['labels']),
      'data.assigneeId': assigneeOf(state),
      ...(assigneeOf(state) === null ? { 'data.assignee': undefined } : {}),
    }),
  }),
  others: [() => ({ event: 'Comment', payload: LINEAR_COMMENT })],
  page: (state, at) => ({ event: 'issues.list', payload: [nodeOf(state, at)] }),
  fetched: (state, at) => ({ event: 'issues.get', payload: nodeOf(state, at) }),
  gone: (at) => ({ event: 'issues.gone', payload: altered(LINEAR_GONE, { seenAt: new Date(at).toISOString() }) }),
  // Taking it away moves no time of the issue, nor does bringing it back.
  removed: (at) => ({ event: 'Issue', payload: altered(REMOVED, { createdAt: new Date(at).toISOString() }) }),
};

const REDMINE_UPDATED = fixture('redmine', 'issue.updated');
const REDMINE_ISSUE = (fixture('redmine', 'issues.get') as { issue: object }).issue;
const REDMINE_GONE = fixture('redmine', 'issues.gone');
const REDMINE_DELETED = fixture('redmine', 'issue.deleted');

const REDMINE_STATUSES: Readonly<Record<string, object>> = {
  open: { id: 1, name: 'New', is_closed: false },
  in_progress: { id: 2, name: 'In Progress', is_closed: false },
  done: { id: 5, name: 'Closed', is_closed: true },
};

/** Leaves out absent people. */
function issueOf(state: State, at: number) {
  const [assignee] = state['assignees'] as string[];
  return altered(REDMINE_ISSUE, {
    subject: state['title'],
    description: state['description'],
    status: REDMINE_STATUSES[state['state'] as string],
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
    ...COMMON,
    priority: ['Normal', 'High'],
    assignees: [[], ['9']],
  },
  final: [],
  webhook: () => ({ event: 'webhook', payload: REDMINE_UPDATED }),
  others: [],
  page: (state, at) => ({ event: 'issues.list', payload: { issues: [issueOf(state, at)] } }),
  fetched: (state, at) => ({ event: 'issues.get', payload: { issue: issueOf(state, at) } }),
  gone: (at) => ({ event: 'issues.gone', payload: altered(REDMINE_GONE, { seenAt: new Date(at).toISOString() }) }),
  removed: () => ({ event: 'webhook', payload: REDMINE_DELETED }),
};

const HOOK = fixture('sentry', 'issue.created');
const SENTRY_ISSUE = fixture('sentry', 'issues.get');
const SENTRY_GONE = fixture('sentry', 'issues.gone');

const SENTRY_STATUSES: Readonly<Record<string, string>> = { open: 'unresolved', done: 'resolved' };

function sentryFieldsOf(above: string, state: State, at: number) {
  const [assignee] = state['assignees'] as string[];
  return {
    [`${above}title`]: state['title'],
    [`${above}status`]: SENTRY_STATUSES[state['state'] as string],
    [`${above}substatus`]: null,
    [`${above}priority`]: state['priority'],
    [`${above}assignedTo`]: assignee === undefined ? null : { type: 'user', id: assignee, name: 'Ada' },
    // An event is seen, and then somebody does something about the issue: that moves no time.
    [`${above}lastSeen`]: new Date(at - (at % 60_000)).toISOString(),
  };
}

export const sentry: ModelProvider = {
  id: 'sentry',
  options: { organization: 'acme', token: 'sntrys_model', projects: ['front-end'] },
  values: { title: ['A bug', 'Another'], state: ['open', 'done'], priority: ['high', 'low'], assignees: [[], ['7']] },
  final: [],
  webhook: (state, at) => ({ event: 'issue', payload: altered(HOOK, sentryFieldsOf('data.issue.', state, at)) }),
  others: [],
  page: (state, at) => ({ event: 'issues.list', payload: [altered(SENTRY_ISSUE, sentryFieldsOf('', state, at))] }),
  fetched: (state, at) => ({ event: 'issues.get', payload: altered(SENTRY_ISSUE, sentryFieldsOf('', state, at)) }),
  gone: (at) => ({ event: 'issues.gone', payload: altered(SENTRY_GONE, { seenAt: new Date(at).toISOString() }) }),
};

const SHORTCUT_UPDATED = fixture('shortcut', 'story.updated');
const STORY = (fixture('shortcut', 'stories.get') as { story: object }).story;
const SHORTCUT_GONE = fixture('shortcut', 'stories.gone');

const STATES: Readonly<Record<string, object>> = {
  open: { started: false, completed: false },
  in_progress: { started: true, completed: false },
  done: { started: true, completed: true },
};

const storyOf = (state: State, at: number) =>
  altered(STORY, {
    name: state['title'],
    description: state['description'] ?? '',
    ...STATES[state['state'] as string],
    labels: (state['labels'] as string[]).map((name) => ({ name })),
    owner_ids: state['assignees'],
    updated_at: new Date(at).toISOString(),
  });

/** Webhooks are taken for no more than which stories they are about; deletions are left to the sweep. */
export const shortcut: ModelProvider = {
  id: 'shortcut',
  options: { token: 'token-model', teams: ['web'] },
  values: {
    ...COMMON,
    labels: [[], ['bug']],
    assignees: [[], ['56d8a839-1c52-437f-b981-c3a15a11d6d4']],
  },
  final: [],
  webhook: () => ({ event: 'webhook', payload: SHORTCUT_UPDATED }),
  others: [],
  page: (state, at) => ({ event: 'stories.list', payload: [storyOf(state, at)] }),
  fetched: (state, at) => ({ event: 'stories.get', payload: { story: storyOf(state, at) } }),
  gone: (at) => ({ event: 'stories.gone', payload: altered(SHORTCUT_GONE, { seenAt: new Date(at).toISOString() }) }),
};
