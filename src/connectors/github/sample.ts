import type { SampleEvent, Samples } from '../connector.ts';
import { hexHmac, NUMBERS, placeIn, TRIAL, TRIAL_NAME, TRIAL_NUMBER, TRIAL_PATH, TRIAL_TEXT } from '../kit/sample.ts';
import { type Options, scopeOf } from './options.ts';

/** Sample events of GitHub, made here. */
export const samples = {
  events: {
    opened: pullRequest('a pull request is opened', 'opened'),
    merged: pullRequest('the same pull request is merged', 'closed'),
  },
  sign: (body: Buffer, secret: string, { id }: { readonly id: string }) => ({
    'x-hub-signature-256': `sha256=${hexHmac(body, secret)}`,
    'x-github-delivery': id,
  }),
} satisfies Samples<Options>;

function pullRequest(about: string, action: 'opened' | 'closed'): SampleEvent<Options> {
  return {
    about,
    headers: { 'x-github-event': 'pull_request' },
    payload(options, moment) {
      const place = placeIn(scopeOf(options), moment, { ids: NUMBERS, name: TRIAL_PATH });
      const now = new Date(moment.at).toISOString();
      const isMerged = action === 'closed';
      const repository = { id: Number(place.id), full_name: place.name, archived: false, fork: false };
      return {
        action,
        number: TRIAL_NUMBER,
        pull_request: {
          number: TRIAL_NUMBER,
          state: isMerged ? 'closed' : 'open',
          title: TRIAL,
          body: TRIAL_TEXT,
          draft: false,
          merged: isMerged,
          merged_at: isMerged ? now : null,
          created_at: now,
          updated_at: now,
          html_url: `https://${options.host}/${place.name}/pull/${TRIAL_NUMBER}`,
          user: { login: TRIAL_NAME },
          labels: [],
          assignees: [],
          requested_reviewers: [],
          requested_teams: [],
          head: { ref: TRIAL_NAME, sha: '0'.repeat(40) },
          base: { ref: 'main', repo: repository },
        },
        repository,
      };
    },
  };
}
