import { workItemKey } from '../../../../src/model/item.ts';
import { altered } from '../model-providers/provider.ts';
import { azureBoards } from '../model-providers/trackers.ts';
import {
  type Asked,
  type Happening,
  type Held,
  type HeldIssue,
  NO_MORE,
  present,
  type Tracker,
  type VendorAnswer,
} from './provider.ts';

const PROJECT = { id: '6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c', name: 'Website' };
const ORGANIZATION = { organization: 'acme', organizationId: '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a7' };
/** This process's names of the two states. */
const NAMES = { open: 'New', done: 'Closed' } as const;
const STATES = [
  { name: NAMES.open, category: 'Proposed' },
  { name: NAMES.done, category: 'Completed' },
];
/** Batches are as large as Azure likes. */
const BATCH = 4;

export function azureTracker(secret: string): Tracker {
  return {
    ...{ id: 'azure-boards', secret, answer },
    options: (apiUrl) => ({ ...ORGANIZATION, apiUrl, token: 'a-token-of-the-tests', projects: ['Website'] }),
    issueHook(issue, happening) {
      const headers = {
        'content-type': 'application/json',
        authorization: `Basic ${Buffer.from(`worksync:${secret}`).toString('base64')}`,
      };
      return { headers, body: JSON.stringify(ofHook(issue, happening)) };
    },
    itemKey: ({ number }) => workItemKey('azure-boards', ORGANIZATION.organizationId, String(number)),
    page: ({ number }) => `https://dev.azure.com/acme/Website/_workitems/edit/${number}`,
    calledAt: (_vendor, { number }) => `AB#${number}`,
  };
}

/** Revisions are counted upwards; milliseconds are. */
function ofIssue(issue: HeldIssue): { id: number; rev: number; fields: Record<string, unknown> } {
  const { number, fields, created, updated, isDeleted } = issue;
  const state = { ...fields, description: fields.description || null, priority: null, assignees: [] };
  const { fields: told } = azureBoards.fetched(state, updated).payload as { fields: Record<string, unknown> };
  return {
    ...{ id: number, rev: Math.floor(updated / 1_000) },
    fields: {
      ...told,
      'System.State': NAMES[fields.state],
      'System.CreatedDate': new Date(created).toISOString(),
      ...(isDeleted && { 'System.IsDeleted': true }),
    },
  };
}

/** In an update, `id` is the number of the update. */
function ofHook(issue: HeldIssue, { event }: Happening): unknown {
  const { id, rev, fields } = ofIssue(issue);
  const isUpdate = event === 'updated';
  return altered(azureBoards.webhook({}, issue.updated).payload, {
    eventType: `workitem.${event}`,
    notificationId: rev,
    createdDate: new Date(issue.updated).toISOString(),
    resource: isUpdate ? { id: rev, workItemId: id, rev, revision: { id, rev, fields } } : { id, rev, fields },
  });
}

function answer({ method, url, body }: Asked, { issues }: Held): VendorAnswer | undefined {
  const path = decodeURIComponent(url.pathname).replace(new RegExp(`^/(${PROJECT.name}|${PROJECT.id})/`), '/project/');
  if (path === `/_apis/projects/${PROJECT.name}` || path === `/_apis/projects/${PROJECT.id}`) return { body: PROJECT };
  if (path === '/project/_apis/wit/workitemtypes/Bug/states') return { body: { value: STATES } };
  if (path === '/project/_apis/wit/reporting/workitemrevisions') return revisions(url, [...issues.values()]);
  if (method === 'POST' && path === '/project/_apis/wit/wiql') return ids(body, issues);
  const one = [...issues.values()].find(({ number }) => path === `/_apis/wit/workitems/${number}`);
  return one && (one.isDeleted ? NO_MORE : { body: ofIssue(one) });
}

/** The latest revision of each, oldest change first; a token names the change that it stands behind. */
function revisions(url: URL, issues: readonly HeldIssue[]): VendorAnswer {
  const query = url.searchParams;
  const [time, id] = (query.get('continuationToken') ?? '').split(';').map(Number);
  const since = Date.parse(query.get('startDateTime') ?? '1970-01-01T00:00:00Z');
  const isLater = ({ updated, number }: HeldIssue) =>
    id === undefined ? updated >= since : updated > (time as number) || (updated === time && number > id);
  const found = issues.filter(isLater).sort((a, b) => a.updated - b.updated || a.number - b.number);
  const shown = found.slice(0, BATCH);
  const last = shown.at(-1);
  const continuationToken = last && `${last.updated};${last.number}`;
  return { body: { values: shown.map(ofIssue), isLastBatch: found.length <= BATCH, continuationToken } };
}

function ids(body: string, issues: Held['issues']): VendorAnswer {
  const above = Number(/\[System.Id\] > (\d+)/.exec(body)?.[1]);
  const found = present(issues).filter(({ number }) => number > above);
  return { body: { workItems: found.sort((a, b) => a.number - b.number).map(({ number }) => ({ id: number })) } };
}
