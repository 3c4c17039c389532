import type { SampleEvent, Samples } from '../connector.ts';
import { placeIn, TRIAL, TRIAL_NUMBER, TRIAL_UUID, UUIDS } from '../kit/sample.ts';
import { type Options, scopeOf } from './options.ts';

/** Sample events of Azure Boards, made here. Whatever such an event tells, worksync asks Azure for the work item. */
export const samples = {
  events: {
    created: workItem('a work item is created', 'workitem.created'),
    deleted: workItem('the same work item is deleted', 'workitem.deleted'),
  },
  // Azure signs nothing: it repeats the password of the subscription.
  sign: (_body, secret) => ({ authorization: `Basic ${Buffer.from(`worksync:${secret}`).toString('base64')}` }),
} satisfies Samples<Options>;

function workItem(about: string, eventType: string): SampleEvent<Options> {
  return {
    about,
    headers: {},
    payload(options, moment) {
      const place = placeIn(scopeOf(options), moment, { ids: UUIDS });
      const now = new Date(moment.at).toISOString();
      return {
        id: moment.id,
        subscriptionId: TRIAL_UUID,
        eventType,
        publisherId: 'tfs',
        resource: {
          id: TRIAL_NUMBER,
          rev: 1,
          fields: {
            'System.TeamProject': place.name,
            'System.WorkItemType': 'Task',
            'System.State': 'New',
            'System.Title': TRIAL,
            'System.CreatedDate': now,
            'System.ChangedDate': now,
          },
        },
        resourceContainers: { project: { id: place.id } },
        createdDate: now,
      };
    },
  };
}
