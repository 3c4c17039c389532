import { NUMBERS, samplesOf, TRIAL_NUMBER } from '../kit/sample.ts';
import { scopeOf } from './options.ts';

/** Sample events of Redmine, made here. worksync fetches the issue of each event. */
export const samples = samplesOf({
  scopeOf,
  place: { ids: NUMBERS },
  events: {
    created: ['an issue is created', 'issue.created'],
    updated: ['the same issue is updated', 'issue.updated'],
  },
  payload(type, { place, now, title }) {
    const project = { id: Number(place.id), name: place.name };
    const issue = { id: TRIAL_NUMBER, project, subject: title, created_on: now, updated_on: now };
    return { type, timestamp: now, data: { issue } };
  },
});
