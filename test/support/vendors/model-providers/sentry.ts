import { altered, fixture, type ModelProvider, type State } from './provider.ts';

const HOOK = fixture('sentry', 'issue.created');
const ISSUE = fixture('sentry', 'issues.get');
const GONE = fixture('sentry', 'issues.gone');

const STATUSES: Readonly<Record<string, string>> = { open: 'unresolved', done: 'resolved' };

function fieldsOf(above: string, state: State, at: number) {
  const [assignee] = state['assignees'] as string[];
  return {
    [`${above}title`]: state['title'],
    [`${above}status`]: STATUSES[state['state'] as string],
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
  webhook: (state, at) => ({ event: 'issue', payload: altered(HOOK, fieldsOf('data.issue.', state, at)) }),
  others: [],
  page: (state, at) => ({ event: 'issues.list', payload: [altered(ISSUE, fieldsOf('', state, at))] }),
  fetched: (state, at) => ({ event: 'issues.get', payload: altered(ISSUE, fieldsOf('', state, at)) }),
  gone: (at) => ({ event: 'issues.gone', payload: altered(GONE, { seenAt: new Date(at).toISOString() }) }),
};
