import { samplesOf, TRIAL_NAME, TRIAL_NUMBER, TRIAL_TEXT } from '../kit/sample.ts';
import { scopeOf } from './options.ts';

/** Sample events in the shape that the README of this folder describes. */
export const samples = samplesOf({
  scopeOf,
  place: { ids: { made: TRIAL_NAME } },
  events: {
    created: ['an item is created', { type: 'item.created', state: 'open' }],
    done: ['the same item is done', { type: 'item.updated', state: 'done' }],
    deleted: ['the same item is deleted', { type: 'item.deleted', state: 'done' }],
  },
  payload: ({ type, state }, { place: { id, name }, now, title }) => ({
    type,
    timestamp: now,
    data: {
      id: String(TRIAL_NUMBER),
      project: { id, name },
      identifier: `TRIAL-${TRIAL_NUMBER}`,
      createdAt: now,
      updatedAt: now,
      title,
      description: TRIAL_TEXT,
      state,
      type: null,
      priority: null,
      labels: [],
      assignees: [],
    },
  }),
});
