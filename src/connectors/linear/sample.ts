import type { SampleEvent, Samples } from '../connector.ts';
import { hexHmac, placeIn, TRIAL, TRIAL_NUMBER, TRIAL_TEXT, TRIAL_UUID, UUIDS } from '../kit/sample.ts';
import { type Options, scopeOf } from './options.ts';

const UNSTARTED = { name: 'Todo', type: 'unstarted' };
const DONE = { name: 'Done', type: 'completed' };

/** Sample events of Linear, made here. */
export const samples = {
  events: {
    created: issue('an issue is created', 'create', UNSTARTED),
    done: issue('the same issue is done', 'update', DONE),
  },
  sign: (body: Buffer, secret: string, { id }: { readonly id: string }) => ({
    'linear-signature': hexHmac(body, secret),
    'linear-delivery': id,
  }),
} satisfies Samples<Options>;

function issue(about: string, action: 'create' | 'update', state: typeof UNSTARTED): SampleEvent<Options> {
  return {
    about,
    headers: { 'linear-event': 'Issue' },
    payload(options, moment) {
      const place = placeIn(scopeOf(options), moment, { ids: UUIDS, name: 'TRIAL' });
      const now = new Date(moment.at).toISOString();
      const identifier = `${place.name}-${TRIAL_NUMBER}`;
      const url = `https://linear.app/trial/issue/${identifier}`;
      return {
        action,
        type: 'Issue',
        createdAt: now,
        organizationId: options.organizationId,
        webhookTimestamp: moment.at,
        url,
        data: {
          id: TRIAL_UUID,
          identifier,
          number: TRIAL_NUMBER,
          title: TRIAL,
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
  };
}
