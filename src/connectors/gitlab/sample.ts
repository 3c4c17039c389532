import { NUMBERS, samplesOf, TRIAL_NAME, TRIAL_NUMBER, TRIAL_PATH, TRIAL_TEXT } from '../kit/sample.ts';
import { scopeOf } from './options.ts';

export const samples = samplesOf({
  scopeOf,
  place: { ids: NUMBERS, name: TRIAL_PATH },
  events: {
    opened: ['a merge request is opened', 'opened'],
    merged: ['the same merge request is merged', 'merged'],
  },
  headers: () => ({ 'x-gitlab-event': 'Merge Request Hook' }),
  payload(state, { options, place, now, title }) {
    const id = Number(place.id);
    const webUrl = `https://${options.host}/${place.name}`;
    return {
      object_kind: 'merge_request',
      event_type: 'merge_request',
      project: { id, path_with_namespace: place.name, web_url: webUrl },
      object_attributes: {
        id: TRIAL_NUMBER,
        iid: TRIAL_NUMBER,
        assignee_ids: [],
        reviewer_ids: [],
        target_project_id: id,
        source_branch: TRIAL_NAME,
        target_branch: 'main',
        title,
        description: TRIAL_TEXT,
        state,
        draft: false,
        created_at: now,
        updated_at: now,
        url: `${webUrl}/-/merge_requests/${TRIAL_NUMBER}`,
        last_commit: { id: '0'.repeat(40) },
        action: state === 'merged' ? 'merge' : 'open',
      },
      labels: [],
      assignees: [],
      reviewers: [],
    };
  },
});
