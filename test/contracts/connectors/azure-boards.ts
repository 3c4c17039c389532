import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, ignored, profileOf, waits } from './profile.ts';

const ORIGIN = 'https://dev.azure.com';
const ORGANIZATION = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const PROJECT = '6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';
const LIST = '/acme/Website/_apis/wit/reporting/workitemrevisions';
const ITEM = '/acme/_apis/wit/workitems/299';
const VERSION = { 'api-version': '7.1' };
const COMMON = {
  ...VERSION,
  includeDeleted: 'true',
  includeLatestOnly: 'true',
  includeIdentityRef: 'true',
  $expand: 'fields',
};
/** The watermark less the overlap of ten minutes. */
const QUERY = { ...COMMON, startDateTime: '2026-02-28T23:50:00.000Z' };
const FIELDS =
  'System.ChangedDate,System.Title,System.Description,Microsoft.VSTS.TCM.ReproSteps,Microsoft.VSTS.Common.AcceptanceCriteria,System.State,System.WorkItemType,System.AssignedTo,System.CreatedBy,System.CreatedDate,System.Tags,System.TeamProject,Microsoft.VSTS.Common.Priority,Microsoft.VSTS.Common.ClosedDate,Microsoft.VSTS.Common.StateChangeDate';
const PRIORITY = 'Microsoft.VSTS.Common.Priority';
const PAGES = 5;

type Revision = { readonly id: number; readonly rev: number; readonly fields: object };
const { id, rev, fields } = fixture<Revision>('azure-boards', 'workitems.get');

/** As the button "Test" of a subscription sends it: the sample of Microsoft's reference. */
const sample = (eventType: string) => ({
  subscriptionId: '4b1f6a52-3c7e-4d21-9b50-7e2f0c9d8a11',
  notificationId: 1,
  id: '03c164c2-8912-4d5e-8009-3707d5f83734',
  eventType,
  publisherId: 'tfs',
  resourceContainers: { project: { id: 'be9b3917-87e6-42a4-a549-2bc06a7a878f' } },
});

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

const project: Exchange = {
  path: '/acme/_apis/projects/Website',
  query: VERSION,
  body: { id: PROJECT, name: 'Website', state: 'wellFormed' },
};
const states: Exchange = {
  path: `/acme/${PROJECT}/_apis/wit/workitemtypes/Bug/states`,
  query: VERSION,
  body: { count: 1, value: [{ name: 'Active', color: '007acc', category: 'InProgress' }] },
};

/** Page n of five holds two revisions, each an hour younger than the one before. */
function page(number: number): Exchange {
  const values = [2 * number - 2, 2 * number - 1].map((age) => ({
    id: 300 + age,
    rev: 2,
    fields: { ...fields, 'System.ChangedDate': new Date(Date.UTC(2026, 2, 5, 3 + age)).toISOString() },
  }));
  const isLastBatch = number === PAGES;
  const nextLink = `${ORIGIN}${LIST}?continuationToken=${number}%3B`;
  return {
    path: LIST,
    query: number === 1 ? QUERY : { ...COMMON, continuationToken: `${number - 1};299;2` },
    body: { values, nextLink, continuationToken: `${number};299;2`, isLastBatch },
  };
}

const said = (message: string) => ({ $id: '1', message, typeKey: 'Exception' });
const date = 'Mon, 05 Jan 2026 09:00:00 GMT';
const who: Exchange = {
  path: '/acme/_apis/connectionData',
  query: { 'api-version': '7.1-preview' },
  body: { instanceId: ORGANIZATION, authenticatedUser: { id: 'me', providerDisplayName: 'Sync' } },
};

export const profile = profileOf({
  id: 'azure-boards',
  options: { organization: 'acme', organizationId: ORGANIZATION, token: 'pat-contract', projects: ['Website'] },
  containerId: PROJECT,
  origin: ORIGIN,
  webhook: {
    signatureHeader: 'authorization',
    coversBody: false,
    required: [],
    sign: (_, secret) => ({ authorization: basic('worksync', secret) }),
    vector: {
      // RFC 7617, section 2.
      secret: 'open sesame',
      body: '{"eventType":"workitem.created"}',
      headers: { authorization: 'Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==' },
    },
    forgeries(_, secret) {
      return {
        'the password without a user': { authorization: `Basic ${Buffer.from(secret).toString('base64')}` },
        'the password as the user': { authorization: basic(secret, '') },
        'the password and more': { authorization: basic('worksync', `${secret}:`) },
        'another password beside the right header': {
          authorization: basic('worksync', 'another'),
          'x-worksync-secret': secret,
        },
        'the password in clear': { authorization: secret },
        'a token in its place': { authorization: `Bearer ${secret}` },
        'another header of ours': { 'x-worksync-secret': 'another' },
        'that header twice': { 'x-worksync-secret': [secret, secret] },
      };
    },
  },
  fixtures: [
    ...['created', 'updated', 'minimal', 'deleted', 'commented'].map((name) => ({
      file: `workitem.${name}`,
      source: 'webhook' as const,
      event: 'webhook',
      outcome: 'references' as const,
    })),
    ignored('workitem.other-project', 'webhook', 'project_not_in_scope'),
    ignored('git.push', 'webhook', 'event_not_followed'),
    from('workitems.list', 'poll', 'workitems.list'),
    from('workitems.get', 'fetch', 'workitems.get'),
    {
      ...from('workitems.closed', 'poll', 'workitems.list'),
      document: 'https://learn.microsoft.com/azure/devops/boards/queries/query-by-workflow-changes',
      endings: [
        { state: 'done', isDropped: false, closedAt: '2026-03-03T09:00:00.25Z' },
        { state: 'done', isDropped: true, closedAt: '2026-03-03T10:00:00Z' },
        { state: 'in_progress', isDropped: false, closedAt: null },
        { state: 'in_progress', isDropped: false, closedAt: null },
      ],
    },
    from('workitems.gone', 'fetch', 'workitems.gone'),
  ],
  about: ['eventType', 'resource', 'resource.id', 'resource.workItemId'],
  leftOut: [...['AssignedTo', 'CreatedBy', 'Description', 'Tags'].map((name) => `System.${name}`), PRIORITY],
  tests: [
    {
      name: 'the sample of an update, of work item 0',
      event: 'webhook',
      payload: { ...sample('workitem.updated'), resource: { id: 2, workItemId: 0, rev: 2 } },
      reason: 'test_delivery',
    },
    {
      name: 'the sample of a new work item, of the project of all samples',
      event: 'webhook',
      payload: { ...sample('workitem.created'), resource: { id: 5, rev: 1 } },
      reason: 'test_delivery',
    },
    {
      name: 'the sample of a comment, of no subscription',
      event: 'webhook',
      payload: {
        ...sample('workitem.commented'),
        subscriptionId: '00000000-0000-0000-0000-000000000000',
        resource: { id: 5, rev: 4 },
        resourceContainers: { project: { id: PROJECT } },
      },
      reason: 'test_delivery',
    },
    {
      name: 'the sample of what is not followed',
      event: 'webhook',
      payload: { ...sample('git.push'), resource: { pushId: 14 } },
      reason: 'event_not_followed',
    },
  ],
  poll: {
    unit: 'Website',
    page,
    besides: [project, states],
    foreignNext: {
      body: { values: [], continuationToken: `https://evil.example${LIST}`, isLastBatch: false },
    },
  },
  fetch: {
    kind: 'work_item',
    reference: { id: '299', projectId: PROJECT },
    found: [{ path: ITEM, query: { ...VERSION, fields: FIELDS }, body: { id, rev, fields } }, project, states],
    gone: [
      { path: ITEM, query: { ...VERSION, fields: FIELDS }, status: 404, body: said('TF401232: does not exist') },
      { ...project, path: `/acme/_apis/projects/${PROJECT}` },
    ],
    unjudged: {
      reference: { id: '299', isFollowed: 'unknown' },
      missing: [
        { path: ITEM, query: { ...VERSION, fields: FIELDS }, status: 404, body: said('TF401232: does not exist') },
      ],
    },
  },
  limits: {
    '429 with retry-after': waits(90_000, { 'retry-after': '90' }, said('TF400733: The request has been canceled')),
    'only a reset': waits(240_000, { date, 'x-ratelimit-reset': String(Date.parse(date) / 1_000 + 240) }),
  },
  statuses: { 203: 'unauthorized', 412: 'conflict' },
  check: {
    good: [who, project, { path: `/acme/${PROJECT}/_apis/wit/workitemtypes`, query: VERSION, body: { value: [] } }],
    refused: [{ ...who, status: 401, body: '' }],
  },
});
