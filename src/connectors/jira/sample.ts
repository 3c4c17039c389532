import { NUMBERS, samplesOf, TRIAL_NUMBER } from '../kit/sample.ts';
import { scopeOf, siteBase } from './options.ts';

export const samples = samplesOf({
  scopeOf,
  place: { ids: NUMBERS, name: 'TRIAL' },
  events: {
    created: ['an issue is created', { event: 'jira:issue_created', status: 'To Do', category: 'new' }],
    done: ['the same issue is done', { event: 'jira:issue_updated', status: 'Done', category: 'done' }],
  },
  payload({ event: webhookEvent, status, category }, { options, place, at, now, title }) {
    // Jira writes the offset without a colon.
    const time = now.replace('Z', '+0000');
    return {
      timestamp: at,
      webhookEvent,
      issue: {
        id: String(TRIAL_NUMBER),
        key: `${place.name}-${TRIAL_NUMBER}`,
        self: `${siteBase(options)}/rest/api/2/issue/${TRIAL_NUMBER}`,
        fields: {
          project: { id: place.id, key: place.name },
          summary: title,
          // Webhooks have wiki text here, which makes worksync fetch the issue: Jira does not know this one.
          description: null,
          status: { name: status, statusCategory: { key: category } },
          priority: null,
          issuetype: { name: 'Task' },
          assignee: null,
          reporter: null,
          creator: null,
          labels: [],
          created: time,
          updated: time,
        },
      },
    };
  },
});
