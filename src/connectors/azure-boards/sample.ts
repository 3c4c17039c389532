import { samplesOf, TRIAL_NUMBER, TRIAL_UUID, UUIDS } from '../kit/sample.ts';
import { scopeOf } from './options.ts';

/** Sample events of Azure Boards, made here. worksync fetches the work item of each event. */
export const samples = samplesOf({
  scopeOf,
  place: { ids: UUIDS },
  events: {
    created: ['a work item is created', 'workitem.created'],
    deleted: ['the same work item is deleted', 'workitem.deleted'],
  },
  payload: (eventType, { id, place, now, title }) => ({
    id,
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
        'System.Title': title,
        'System.CreatedDate': now,
        'System.ChangedDate': now,
      },
    },
    resourceContainers: { project: { id: place.id } },
    createdDate: now,
  }),
});
