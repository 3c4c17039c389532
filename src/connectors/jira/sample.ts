import type { SampleEvent, Samples } from '../connector.ts';
import { hexHmac, NUMBERS, placeIn, TRIAL, TRIAL_NUMBER } from '../kit/sample.ts';
import { type Options, scopeOf, siteBase } from './options.ts';

const OPEN = { name: 'To Do', statusCategory: { key: 'new' } };
const DONE = { name: 'Done', statusCategory: { key: 'done' } };

/** Sample events of Jira, made here. */
export const samples = {
  events: {
    created: issue('an issue is created', 'jira:issue_created', OPEN),
    done: issue('the same issue is done', 'jira:issue_updated', DONE),
  },
  sign: (body: Buffer, secret: string, { id }: { readonly id: string }) => ({
    'x-hub-signature': `sha256=${hexHmac(body, secret)}`,
    'x-atlassian-webhook-identifier': id,
  }),
} satisfies Samples<Options>;

function issue(about: string, webhookEvent: string, status: typeof OPEN): SampleEvent<Options> {
  return {
    about,
    headers: {},
    payload(options, moment) {
      const place = placeIn(scopeOf(options), moment, { ids: NUMBERS, name: 'TRIAL' });
      // Jira writes the offset without a colon.
      const now = new Date(moment.at).toISOString().replace('Z', '+0000');
      return {
        timestamp: moment.at,
        webhookEvent,
        issue: {
          id: String(TRIAL_NUMBER),
          key: `${place.name}-${TRIAL_NUMBER}`,
          self: `${siteBase(options)}/rest/api/2/issue/${TRIAL_NUMBER}`,
          fields: {
            project: { id: place.id, key: place.name },
            summary: TRIAL,
            // Webhooks have wiki text here, for which worksync asks Jira: Jira does not know this issue.
            description: null,
            status,
            priority: null,
            issuetype: { name: 'Task' },
            assignee: null,
            reporter: null,
            creator: null,
            labels: [],
            created: now,
            updated: now,
          },
        },
      };
    },
  };
}
