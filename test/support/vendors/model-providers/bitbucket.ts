import { altered, fixture, type ModelProvider, type State } from './provider.ts';

const CREATED = fixture('bitbucket', 'pullrequest.created') as { pullrequest: object };
const COMMENT = fixture('bitbucket', 'pullrequest.comment_created');
const GONE = fixture('bitbucket', 'pullrequests.gone');
const WORDS: Readonly<Record<string, string>> = { open: 'OPEN', merged: 'MERGED', declined: 'DECLINED' };
const [BEN, CHO] = ['{b2c0ffee-0002-4a5b-8c9d-000000000002}', '{c3c0ffee-0003-4a5b-8c9d-000000000003}'];

function pullOf(state: State, at: number) {
  return altered(CREATED.pullrequest, {
    title: state['title'],
    description: state['description'],
    draft: state['draft'],
    state: WORDS[state['state'] as string],
    'destination.branch.name': state['baseBranch'],
    reviewers: (state['reviewers'] as string[]).map((uuid) => ({ uuid })),
    // Microseconds, of which the model has none of its own.
    updated_on: new Date(at).toISOString().replace('Z', '250+00:00'),
  });
}

/** No labels, no assignees; merged and declined are final. */
export const bitbucket: ModelProvider = {
  id: 'bitbucket',
  options: { repositories: ['acme/api'] },
  values: {
    title: ['A change', 'Another'],
    description: ['Text', ''],
    draft: [false, true],
    state: ['open', 'declined', 'merged'],
    baseBranch: ['main', 'next'],
    reviewers: [[BEN], [], [BEN, CHO]],
  },
  final: ['merged', 'declined'],
  webhook: (state, at) => ({
    event: 'pullrequest:updated',
    payload: altered(CREATED, { pullrequest: pullOf(state, at) }),
  }),
  others: [
    (state, at) => ({
      event: 'pullrequest:comment_created',
      payload: altered(COMMENT, { pullrequest: pullOf(state, at) }),
    }),
  ],
  page: (state, at) => ({ event: 'pullrequests.list', payload: { values: [pullOf(state, at)] } }),
  fetched: (state, at) => ({ event: 'pullrequests.get', payload: pullOf(state, at) }),
  gone: (at) => ({ event: 'pullrequests.gone', payload: altered(GONE, { seen_at: new Date(at).toISOString() }) }),
};
