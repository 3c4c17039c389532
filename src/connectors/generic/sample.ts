import type { SampleEvent, Samples } from '../connector.ts';
import { placeIn, standardSignature, TRIAL, TRIAL_NAME, TRIAL_NUMBER, TRIAL_TEXT } from '../kit/sample.ts';
import { type Options, scopeOf } from './options.ts';

/** Sample events in the shape that the README of this folder describes. */
export const samples = {
  events: {
    created: item('an item is created', 'item.created', 'open'),
    done: item('the same item is done', 'item.updated', 'done'),
    deleted: item('the same item is deleted', 'item.deleted', 'done'),
  },
  sign: standardSignature,
} satisfies Samples<Options>;

function item(about: string, type: string, state: 'open' | 'done'): SampleEvent<Options> {
  return {
    about,
    headers: {},
    payload(options, moment) {
      const { id, name } = placeIn(scopeOf(options), moment, { ids: { made: TRIAL_NAME } });
      const now = new Date(moment.at).toISOString();
      return {
        type,
        timestamp: now,
        data: {
          id: String(TRIAL_NUMBER),
          project: { id, name },
          identifier: `TRIAL-${TRIAL_NUMBER}`,
          createdAt: now,
          updatedAt: now,
          title: TRIAL,
          description: TRIAL_TEXT,
          state,
          type: null,
          priority: null,
          labels: [],
          assignees: [],
        },
      };
    },
  };
}
