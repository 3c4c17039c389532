import { altered, fixture, type ModelProvider, type State } from './provider.ts';

const UPDATED = fixture('generic', 'item.updated');
const ITEM = fixture('generic', 'items.get');
const GONE = fixture('generic', 'items.gone');
const DELETED = fixture('generic', 'item.deleted');
const FIELDS = ['title', 'description', 'state', 'rawState', 'priority', 'labels', 'assignees'];

/** The version of the fixture stands for a sender that counts none. */
function fieldsOf(above: string, state: State, at: number): Record<string, unknown> {
  return {
    ...Object.fromEntries(FIELDS.map((field) => [above + field, state[field]])),
    [`${above}version`]: undefined,
    [`${above}updatedAt`]: new Date(at).toISOString(),
  };
}

const item = (state: State, at: number) => altered(ITEM, fieldsOf('', state, at));

export const generic: ModelProvider = {
  id: 'generic',
  options: { system: 'desk', feedUrl: 'https://desk.example.com/feed', projects: ['web'] },
  values: {
    title: ['A bug', 'Another'],
    description: ['Text', null],
    state: ['open', 'in_progress', 'done'],
    rawState: ['New', 'Doing'],
    priority: ['high', null],
    labels: [[], ['api'], ['api', 'bug']],
    assignees: [[], ['jon']],
  },
  final: [],
  webhook: (state, at) => ({ event: 'webhook', payload: altered(UPDATED, fieldsOf('data.', state, at)) }),
  others: [],
  page: (state, at) => ({ event: 'items.list', payload: [item(state, at)] }),
  fetched: (state, at) => ({ event: 'items.get', payload: item(state, at) }),
  gone: (at) => ({ event: 'items.gone', payload: altered(GONE, { seenAt: new Date(at).toISOString() }) }),
  removed: (at) => ({ event: 'webhook', payload: altered(DELETED, { timestamp: new Date(at).toISOString() }) }),
};
