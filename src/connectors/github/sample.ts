import { NUMBERS, samplesOf, TRIAL, TRIAL_NAME, TRIAL_NUMBER, TRIAL_PATH, TRIAL_TEXT } from '../kit/sample.ts';
import { scopeOf } from './options.ts';
import { sign } from './verify.ts';

/** Sample events of GitHub, made here. */
export const samples = samplesOf({
  sign,
  scopeOf,
  place: { ids: NUMBERS, name: TRIAL_PATH },
  events: {
    opened: ['a pull request is opened', 'opened'],
    merged: ['the same pull request is merged', 'closed'],
  },
  headers: () => ({ 'x-github-event': 'pull_request' }),
  payload(action, { options, place, now }) {
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
});
