import type { SampleEvent, Samples } from '../connector.ts';
import { hexHmac, placeIn, TRIAL, TRIAL_NAME, TRIAL_NUMBER, TRIAL_TEXT, TRIAL_UUID } from '../kit/sample.ts';
import { HOST, type Options, scopeOf } from './options.ts';

const MADE_ID = `{${TRIAL_UUID}}`;

/** Sample events of Bitbucket, made here. */
export const samples = {
  events: {
    opened: pullRequest('a pull request is opened', 'created', 'OPEN'),
    merged: pullRequest('the same pull request is merged', 'fulfilled', 'MERGED'),
  },
  sign: (body, secret) => ({ 'x-hub-signature': `sha256=${hexHmac(body, secret)}` }),
} satisfies Samples<Options>;

function pullRequest(about: string, change: string, state: 'OPEN' | 'MERGED'): SampleEvent<Options> {
  return {
    about,
    headers: { 'x-event-key': `pullrequest:${change}` },
    payload(options, moment) {
      const place = placeIn(scopeOf(options), moment, { ids: { made: MADE_ID } });
      const now = new Date(moment.at).toISOString();
      const repository = { type: 'repository', uuid: place.id, full_name: place.name };
      return {
        actor: { type: 'user', uuid: MADE_ID, display_name: TRIAL },
        pullrequest: {
          type: 'pullrequest',
          id: TRIAL_NUMBER,
          title: TRIAL,
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
  };
}
