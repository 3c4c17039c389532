import { z } from 'zod';
import { described, fields } from './operation.ts';

/** The public APIs of trackers, as far as they are used. */

const V = 'api-version=7.1';
const EXPAND = '$expand=none|relations|fields|links|all';
const COMMENTS = '/{project}/_apis/wit/workItems/{workItemId}/comments';
const PREVIEW = 'api-version=7.1-preview.4';
const DETAILS = ['none', 'text', 'html', 'markdown', 'all'];

const subscription = {
  publisherId: z.literal('tfs'),
  eventType: z.enum(['commented', 'created', 'deleted', 'restored', 'updated'].map((verb) => `workitem.${verb}`)),
  resourceVersion: z.enum(['1.0', '1.0-preview.1', '2.0', '3.1-preview.3', '5.1-preview.3']),
  consumerId: z.literal('webHooks'),
  consumerActionId: z.literal('httpRequest'),
  publisherInputs: fields({ projectId: z.uuid() }),
  consumerInputs: fields({
    url: z.url(),
    basicAuthUsername: z.string().optional(),
    basicAuthPassword: z.string().optional(),
    resourceDetailsToSend: z.enum(['none', 'minimal', 'all']),
    messagesToSend: z.enum(DETAILS),
    detailedMessagesToSend: z.enum(DETAILS),
  }),
};
const operation = fields({
  op: z.enum(['add', 'remove', 'replace', 'move', 'copy', 'test']),
  path: z.string().startsWith('/'),
  value: z.unknown(),
});
const text = fields({ text: z.string() });

/**
 * Azure DevOps Services REST API 7.1 (github.com/MicrosoftDocs/vsts-rest-api-specs, `specification/{core,wit,hooks}/7.1`,
 * 12 May 2026). Who the credential is stands at `connectionData`, which Microsoft's own client libraries ask
 * (`azure-devops-node-api`, LocationsApi) and no description holds.
 */
export const azureBoards = described('https://dev.azure.com/{organization}', {
  'GET /_apis/connectionData api-version=7.1-preview': {},
  [`GET /_apis/projects ${V} continuationToken stateFilter $top<=1000 $skip<=1000000`]: {},
  [`GET /_apis/projects/{projectId} ${V} includeCapabilities=true|false includeHistory=true|false`]: {},
  [`GET /_apis/hooks/subscriptions ${V} publisherId eventType consumerId consumerActionId`]: {},
  [`POST /_apis/hooks/subscriptions ${V}`]: { body: fields(subscription) },
  [`PUT /_apis/hooks/subscriptions/{subscriptionId} ${V}`]: {
    body: fields({ ...subscription, id: z.string().regex(/^[0-9a-f-]{36}$/i) }),
  },
  [`GET /{project}/_apis/wit/reporting/workitemrevisions ${V} fields types continuationToken startDateTime
    includeIdentityRef=true|false includeDeleted=true|false includeLatestOnly=true|false $expand=none|fields`]: {},
  [`POST /{project}/_apis/wit/wiql ${V} timePrecision=true|false $top<=20000`]: { body: fields({ query: z.string() }) },
  [`GET /_apis/wit/workitems/{id} ${V} fields asOf ${EXPAND}`]: {},
  [`PATCH /_apis/wit/workitems/{id} ${V} validateOnly=true|false bypassRules=true|false ${EXPAND}`]: {
    headers: z.looseObject({ 'content-type': z.literal('application/json-patch+json') }),
    body: z.array(operation),
  },
  [`GET /{project}/_apis/wit/workitemtypes ${V}`]: {},
  [`GET /{project}/_apis/wit/workitemtypes/{type}/states ${V}`]: {},
  [`GET ${COMMENTS} ${PREVIEW} continuationToken $top<=200 includeDeleted=true|false order=asc|desc`]: {},
  [`POST ${COMMENTS} ${PREVIEW} format=markdown|html`]: { body: text },
  [`PATCH ${COMMENTS}/{commentId} ${PREVIEW} format=markdown|html`]: { body: text },
});

const ISSUE = '/rest/api/3/issue/{issueIdOrKey}';
const PROJECT_ORDERS = ['category', 'issueCount', 'key', 'lastIssueUpdatedTime', 'name', 'owner']
  .flatMap((order) => [order, `-${order}`, `+${order}`])
  .join('|');
const adf = z.looseObject({ type: z.literal('doc'), version: z.literal(1), content: z.array(z.unknown()) });
const comment = fields({ body: adf, properties: z.array(fields({ key: z.string(), value: z.unknown() })).optional() });
const webhook = fields({
  name: z.string(),
  url: z.url(),
  events: z.array(z.string().regex(/^(?:jira:issue|comment)_(?:created|updated|deleted)$/)),
  filters: fields({ 'issue-related-events-section': z.string() }),
  excludeBody: z.boolean(),
  enabled: z.boolean().optional(),
  description: z.string().optional(),
  secret: z.string().optional(),
});
/** The exchange of a refresh token. */
export const refresh = fields({
  grant_type: z.literal('refresh_token'),
  client_id: z.string(),
  client_secret: z.string(),
  refresh_token: z.string(),
});

/**
 * Jira Cloud's platform API, version 3 (developer.atlassian.com/cloud/jira/platform/rest/v3). Beside it: admin webhooks
 * (…/platform/webhooks, "Registering a webhook using the Jira REST API"), the id of a site, which everybody may read
 * (support.atlassian.com, "Retrieve my Atlassian site's Cloud ID"), and …/cloud/oauth/getting-started/refresh-tokens.
 */
export const jira = described('https://api.atlassian.com/ex/jira/{cloudId}', {
  'POST /oauth/token': { body: refresh },
  'GET /_edge/tenant_info': {},
  'GET /rest/api/3/myself expand': {},
  'GET /rest/webhooks/1.0/webhook': {},
  'POST /rest/webhooks/1.0/webhook': { body: webhook },
  'PUT /rest/webhooks/1.0/webhook/{id}': { body: webhook },
  'GET /rest/api/3/search/jql jql nextPageToken fields expand properties maxResults<=5000 failFast=true|false': {},
  'POST /rest/api/3/search/approximate-count': { body: fields({ jql: z.string() }) },
  [`GET /rest/api/3/project/search startAt<=1000000 maxResults<=100 id keys query status orderBy=${PROJECT_ORDERS}`]:
    {},
  'GET /rest/api/3/project/{projectIdOrKey} expand properties': {},
  [`GET ${ISSUE} fields expand properties fieldsByKeys=true|false updateHistory=true|false failFast=true|false`]: {},
  [`GET ${ISSUE}/comment startAt<=1000000 maxResults<=100 expand orderBy=created|-created|+created`]: {},
  [`POST ${ISSUE}/comment expand`]: { body: comment },
  [`PUT ${ISSUE}/comment/{id} expand notifyUsers=true|false overrideEditableFlag=true|false`]: { body: comment },
  [`GET ${ISSUE}/transitions expand transitionId includeUnavailableTransitions=true|false`]: {},
  [`POST ${ISSUE}/transitions`]: {
    body: fields({ transition: fields({ id: z.string() }), fields: z.record(z.string(), z.unknown()).optional() }),
  },
});

const typed = z.looseObject({ 'content-type': z.literal('application/json') });
const note = { notes: z.string().optional(), private_notes: z.boolean().optional() };

/** Redmine's REST API (redmine.org/projects/redmine/wiki/Rest_api and the pages of its resources, `config/routes.rb` of 6.0). */
export const redmine = described('https://www.redmine.org', {
  'GET /users/current.json include=memberships|groups': {},
  'GET /issue_statuses.json': {},
  'GET /projects.json offset<=1000000 limit<=100 include=trackers|issue_categories|enabled_modules': {},
  'GET /projects/{id}.json include': {},
  [`GET /issues.json offset<=1000000 limit<=100 project_id subproject_id tracker_id updated_on created_on issue_id status_id
    sort=id|id:desc|updated_on|updated_on:desc include`]: {},
  'GET /issues/{id}.json include=children|relations|journals|watchers|allowed_statuses': {},
  'PUT /issues/{id}.json': {
    headers: typed,
    body: fields({ issue: fields({ ...note, status_id: z.int().optional() }) }),
  },
  'PUT /journals/{id}.json': { headers: typed, body: fields({ journal: fields(note) }) },
});

const ORGANIZATION = '/organizations/{organization_id_or_slug}';
const GROUP = `${ORGANIZATION}/issues/{issue_id}`;

/**
 * Sentry's public API (github.com/getsentry/sentry-api-schema, `openapi-derefed.json`, 16 August 2026). Comments stand in no
 * description: their routes are those of Sentry's own source (`src/sentry/api/urls.py`, group notes), which its pages use.
 */
export const sentry = described('https://sentry.io/api/0', {
  [`GET ${ORGANIZATION}/ detailed`]: {},
  [`GET ${ORGANIZATION}/projects/ cursor query per_page<=100`]: {},
  'GET /projects/{organization_id_or_slug}/{project_id_or_slug}/': {},
  [`GET ${ORGANIZATION}/issues/ cursor environment statsPeriod start end query project<=1000000000 limit<=100
    sort=date|freq|inbox|new|recommended|trends|user collapse=base|filtered|lifetime|stats|unhandled`]: {},
  [`GET ${GROUP}/ environment collapse=release|stats|tags`]: {},
  [`PUT ${GROUP}/`]: {
    body: fields({ status: z.enum(['resolved', 'unresolved', 'ignored', 'resolvedInNextRelease']) }),
  },
  [`GET ${GROUP}/comments/ cursor`]: {},
  [`POST ${GROUP}/comments/`]: { body: text },
  [`PUT ${GROUP}/comments/{note_id}/`]: { body: text },
});

const time = z.iso.datetime({ offset: true });
const searched = fields({
  ...{ archived: z.boolean(), includes_description: z.boolean(), group_id: z.uuid(), group_ids: z.array(z.uuid()) },
  workflow_state_types: z.array(z.enum(['started', 'backlog', 'unstarted', 'done'])),
  ...{ created_at_start: time, created_at_end: time, updated_at_start: time, updated_at_end: time },
  ...{ completed_at_start: time, completed_at_end: time },
}).partial();
const headers = z.looseObject({ 'shortcut-token': z.string() });
const STORY = '/stories/{story-public-id}';

/**
 * Shortcut's REST API v3 (https://developer.shortcut.com/api/rest/v3), as the types of `@shortcut/client` 3.4.1 tell it, which
 * are made of the same description (22 November 2026): `SearchStories`, `UpdateStory`, `CreateStoryComment`, `UpdateStoryComment`.
 */
export const shortcut = described('https://api.app.shortcut.com/api/v3', {
  'GET /member': { headers },
  'GET /groups': { headers },
  'GET /groups/{group-public-id}': { headers },
  'GET /workflows/{workflow-public-id}': { headers },
  'POST /stories/search': { headers, body: searched },
  [`GET ${STORY}`]: { headers },
  [`PUT ${STORY}`]: { headers, body: fields({ workflow_state_id: z.int() }) },
  [`GET ${STORY}/comments`]: { headers },
  [`POST ${STORY}/comments`]: { headers, body: text },
  [`PUT ${STORY}/comments/{comment-public-id}`]: { headers, body: text },
});
