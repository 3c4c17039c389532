import { altered, fixture, type ModelProvider, type State } from './provider.ts';

const UPDATED = fixture('azure-boards', 'workitem.updated');
const COMMENT = fixture('azure-boards', 'workitem.commented');
const GONE = fixture('azure-boards', 'workitems.gone');
const DELETED = fixture('azure-boards', 'workitem.deleted');
const ITEM = fixture('azure-boards', 'workitems.get') as { fields: object };
const BEN = '74a0ab46-8b2b-6e1d-a3b2-5c3f9d0e1f2a';

const CATEGORIES: Readonly<Record<string, string>> = { open: 'Proposed', in_progress: 'InProgress', done: 'Completed' };

/** Leaves out empty fields. */
function itemOf(state: State, at: number) {
  const [assignee] = state['assignees'] as string[];
  const labels = state['labels'] as string[];
  const description = state['description'] as string | null;
  const fields: Record<string, unknown> = {
    ...ITEM.fields,
    'System.Title': state['title'],
    'System.Description': description === null ? undefined : `<div>${description}</div>`,
    'System.Tags': labels.length === 0 ? undefined : labels.join('; '),
    'System.AssignedTo': assignee === undefined ? undefined : { id: assignee },
    'Microsoft.VSTS.Common.Priority': state['priority'] === null ? undefined : Number(state['priority']),
    'System.ChangedDate': new Date(at).toISOString(),
  };
  return altered(ITEM, { category: CATEGORIES[state['state'] as string], fields, rev: at });
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
    title: ['A bug', 'Another'],
    description: ['Text', null],
    state: ['open', 'in_progress', 'done'],
    priority: ['1', null, '4'],
    labels: [[], ['api'], ['api', 'bug']],
    assignees: [[], [BEN]],
  },
  final: [],
  webhook: () => ({ event: 'webhook', payload: UPDATED }),
  others: [() => ({ event: 'webhook', payload: COMMENT })],
  page: (state, at) => ({ event: 'workitems.list', payload: [itemOf(state, at)] }),
  fetched: (state, at) => ({ event: 'workitems.get', payload: itemOf(state, at) }),
  gone: (at) => ({ event: 'workitems.gone', payload: altered(GONE, { seenAt: new Date(at).toISOString() }) }),
  removed: () => ({ event: 'webhook', payload: DELETED }),
};
