import { altered, fixture, type ModelProvider, type State } from './provider.ts';

const UPDATED = fixture('shortcut', 'story.updated');
const STORY = (fixture('shortcut', 'stories.get') as { story: object }).story;
const GONE = fixture('shortcut', 'stories.gone');

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
    title: ['A bug', 'Another'],
    description: ['Text', null],
    state: ['open', 'in_progress', 'done'],
    labels: [[], ['bug']],
    assignees: [[], ['56d8a839-1c52-437f-b981-c3a15a11d6d4']],
  },
  final: [],
  webhook: () => ({ event: 'webhook', payload: UPDATED }),
  others: [],
  page: (state, at) => ({ event: 'stories.list', payload: [storyOf(state, at)] }),
  fetched: (state, at) => ({ event: 'stories.get', payload: { story: storyOf(state, at) } }),
  gone: (at) => ({ event: 'stories.gone', payload: altered(GONE, { seenAt: new Date(at).toISOString() }) }),
};
