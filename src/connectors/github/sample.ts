import { NUMBERS, samplesOf, TRIAL_NAME, TRIAL_NUMBER, TRIAL_PATH, TRIAL_TEXT } from '../kit/sample.ts';
import { scopeOf } from './options.ts';

export const samples = samplesOf({
  scopeOf,
  place: { ids: NUMBERS, name: TRIAL_PATH },
  events: {
    opened: ['a pull request is opened', { action: 'opened', review: undefined }],
    changes: ['a member requests changes to it', { action: 'submitted', review: 'changes_requested' }],
    approved: ['a member approves it', { action: 'submitted', review: 'approved' }],
    merged: ['it is merged', { action: 'closed', review: undefined }],
  },
  headers: ({ review }) => ({ 'x-github-event': review ? 'pull_request_review' : 'pull_request' }),
  payload({ action, review }, { options, place, at, now, title }) {
    const isMerged = action === 'closed';
    const repository = {
      id: Number(place.id),
      full_name: place.name,
      default_branch: 'main',
      archived: false,
      fork: false,
    };
    const user = { login: TRIAL_NAME };
    return {
      action,
      number: TRIAL_NUMBER,
      pull_request: {
        number: TRIAL_NUMBER,
        state: isMerged ? 'closed' : 'open',
        title,
        body: TRIAL_TEXT,
        draft: false,
        merged: isMerged,
        merged_at: isMerged ? now : null,
        created_at: now,
        updated_at: now,
        html_url: `https://${options.host}/${place.name}/pull/${TRIAL_NUMBER}`,
        user,
        labels: [],
        assignees: [],
        requested_reviewers: [],
        requested_teams: [],
        head: { ref: TRIAL_NAME, sha: '0'.repeat(40), repo: repository },
        base: { ref: 'main', repo: repository },
      },
      ...(review && { review: { id: at, state: review, user, submitted_at: now, author_association: 'MEMBER' } }),
      repository,
    };
  },
});
