import { NUMBERS, samplesOf, TRIAL_NUMBER, TRIAL_TEXT } from '../kit/sample.ts';
import { scopeOf } from './options.ts';

export const samples = samplesOf({
  scopeOf,
  place: { ids: NUMBERS },
  events: {
    created: ['an issue is created', { action: 'created', status: 'unresolved' }],
    resolved: ['the same issue is resolved', { action: 'resolved', status: 'resolved' }],
  },
  headers: () => ({ 'sentry-hook-resource': 'issue' }),
  payload({ action, status }, { options, place, now, title }) {
    const issue = {
      id: String(TRIAL_NUMBER),
      shortId: 'TRIAL-1',
      title,
      culprit: TRIAL_TEXT,
      permalink: `https://${options.host}/organizations/${options.organization}/issues/${TRIAL_NUMBER}/`,
      status,
      level: 'error',
      priority: 'low',
      type: 'error',
      assignedTo: null,
      project: { id: place.id, slug: place.name },
      firstSeen: now,
      lastSeen: now,
    };
    return { action, data: { issue } };
  },
});
