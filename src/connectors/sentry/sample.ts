import type { SampleEvent, Samples } from '../connector.ts';
import { hexHmac, NUMBERS, placeIn, TRIAL, TRIAL_NUMBER, TRIAL_TEXT } from '../kit/sample.ts';
import { EVENT } from './items.ts';
import { type Options, scopeOf } from './options.ts';

/** Sample events of Sentry, made here. */
export const samples = {
  events: {
    created: issue('an issue is created', 'created', 'unresolved'),
    resolved: issue('the same issue is resolved', 'resolved', 'resolved'),
  },
  sign: (body: Buffer, secret: string, { id }: { readonly id: string }) => ({
    'sentry-hook-signature': hexHmac(body, secret),
    'request-id': id,
  }),
} satisfies Samples<Options>;

function issue(about: string, action: string, status: 'unresolved' | 'resolved'): SampleEvent<Options> {
  return {
    about,
    headers: { 'sentry-hook-resource': EVENT },
    payload(options, moment) {
      const place = placeIn(scopeOf(options), moment, { ids: NUMBERS });
      const now = new Date(moment.at).toISOString();
      return {
        action,
        data: {
          issue: {
            id: String(TRIAL_NUMBER),
            shortId: 'TRIAL-1',
            title: TRIAL,
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
          },
        },
      };
    },
  };
}
