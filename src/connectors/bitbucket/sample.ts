import { samplesOf, TRIAL, TRIAL_NAME, TRIAL_NUMBER, TRIAL_TEXT, TRIAL_UUID } from '../kit/sample.ts';
import { HOST, scopeOf } from './options.ts';

const MADE_ID = `{${TRIAL_UUID}}`;

export const samples = samplesOf({
  scopeOf,
  place: { ids: { made: MADE_ID } },
  events: {
    opened: ['a pull request is opened', { change: 'created', state: 'OPEN' }],
    merged: ['the same pull request is merged', { change: 'fulfilled', state: 'MERGED' }],
  },
  headers: ({ change }) => ({ 'x-event-key': `pullrequest:${change}` }),
  payload({ state }, { place, now, title }) {
    const repository = { type: 'repository', uuid: place.id, full_name: place.name };
    return {
      actor: { type: 'user', uuid: MADE_ID, display_name: TRIAL },
      pullrequest: {
        type: 'pullrequest',
        id: TRIAL_NUMBER,
        title,
        description: TRIAL_TEXT,
        state,
        draft: false,
        author: { type: 'user', uuid: MADE_ID, display_name: TRIAL },
        reviewers: [],
        source: { branch: { name: TRIAL_NAME }, commit: { hash: '0'.repeat(12) }, repository },
        destination: { branch: { name: 'main' }, commit: { hash: '0'.repeat(12) }, repository },
        created_on: now,
        updated_on: now,
        links: { html: { href: `https://${HOST}/${place.name}/pull-requests/${TRIAL_NUMBER}` } },
      },
      repository,
    };
  },
});
