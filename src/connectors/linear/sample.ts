import { samplesOf, TRIAL_NUMBER, TRIAL_TEXT, TRIAL_UUID, UUIDS } from '../kit/sample.ts';
import { scopeOf } from './options.ts';

export const samples = samplesOf({
  scopeOf,
  place: { ids: UUIDS, name: 'TRIAL' },
  events: {
    created: ['an issue is created', { action: 'create', state: { name: 'Todo', type: 'unstarted' } }],
    done: ['the same issue is done', { action: 'update', state: { name: 'Done', type: 'completed' } }],
  },
  headers: () => ({ 'linear-event': 'Issue' }),
  payload({ action, state }, { options, place, at, now, title }) {
    const identifier = `${place.name}-${TRIAL_NUMBER}`;
    const url = `https://linear.app/trial/issue/${identifier}`;
    return {
      action,
      type: 'Issue',
      createdAt: now,
      organizationId: options.organizationId,
      webhookTimestamp: at,
      url,
      data: {
        id: TRIAL_UUID,
        identifier,
        number: TRIAL_NUMBER,
        title,
        description: TRIAL_TEXT,
        url,
        priority: 0,
        state,
        assigneeId: null,
        creatorId: null,
        team: { id: place.id, key: place.name },
        labels: [],
        createdAt: now,
        updatedAt: now,
      },
    };
  },
});
