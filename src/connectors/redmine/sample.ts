import type { SampleEvent, Samples } from '../connector.ts';
import { hexHmac, NUMBERS, placeIn, TRIAL, TRIAL_NUMBER } from '../kit/sample.ts';
import { type Options, scopeOf } from './options.ts';

/** Sample events of Redmine, made here. Whatever such an event tells, worksync asks Redmine for the issue. */
export const samples = {
  events: {
    created: issue('an issue is created', 'issue.created'),
    updated: issue('the same issue is updated', 'issue.updated'),
  },
  sign: (body, secret) => ({ 'x-redmine-signature-256': `sha256=${hexHmac(body, secret)}` }),
} satisfies Samples<Options>;

function issue(about: string, type: string): SampleEvent<Options> {
  return {
    about,
    headers: {},
    payload(options, moment) {
      const place = placeIn(scopeOf(options), moment, { ids: NUMBERS });
      const now = new Date(moment.at).toISOString();
      return {
        type,
        timestamp: now,
        data: {
          issue: {
            id: TRIAL_NUMBER,
            project: { id: Number(place.id), name: place.name },
            subject: TRIAL,
            created_on: now,
            updated_on: now,
          },
        },
      };
    },
  };
}
