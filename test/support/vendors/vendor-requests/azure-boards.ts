import { z } from 'zod';
import { described, fields, number, type Operation, query, texts, truth } from './operation.ts';

/**
 * Azure DevOps Services REST API 7.1 (github.com/MicrosoftDocs/vsts-rest-api-specs, `specification/{core,wit,hooks}/7.1`,
 * 12 May 2026). Who the credential is stands at `connectionData`, which Microsoft's own client libraries ask
 * (`azure-devops-node-api`, LocationsApi) and no description holds.
 */
const VERSION = { 'api-version': z.literal('7.1') };
const PREVIEW = { 'api-version': z.literal('7.1-preview.4') };
const EXPAND = z.enum(['none', 'relations', 'fields', 'links', 'all']);
const patched = z.looseObject({ 'content-type': z.literal('application/json-patch+json') });

const subscription = {
  publisherId: z.literal('tfs'),
  eventType: z.enum([
    'workitem.commented',
    'workitem.created',
    'workitem.deleted',
    'workitem.restored',
    'workitem.updated',
  ]),
  resourceVersion: z.enum(['1.0', '1.0-preview.1', '2.0', '3.1-preview.3', '5.1-preview.3']),
  consumerId: z.literal('webHooks'),
  consumerActionId: z.literal('httpRequest'),
  publisherInputs: fields({
    projectId: z.uuid(),
    areaPath: z.string().optional(),
    workItemType: z.string().optional(),
  }),
  consumerInputs: fields({
    url: z.url(),
    httpHeaders: z.string().optional(),
    basicAuthUsername: z.string().optional(),
    basicAuthPassword: z.string().optional(),
    resourceDetailsToSend: z.enum(['none', 'minimal', 'all']),
    messagesToSend: z.enum(['none', 'text', 'html', 'markdown', 'all']),
    detailedMessagesToSend: z.enum(['none', 'text', 'html', 'markdown', 'all']),
  }),
};

const operations: readonly Operation[] = [
  { method: 'GET', path: '/_apis/connectionData', query: query({ 'api-version': z.literal('7.1-preview') }) },
  {
    method: 'GET',
    path: '/_apis/projects',
    query: query({ ...VERSION, ...texts('continuationToken', 'stateFilter'), $top: number(1), $skip: number(0) }),
  },
  {
    method: 'GET',
    path: '/_apis/projects/{projectId}',
    query: query({ ...VERSION, includeCapabilities: truth, includeHistory: truth }),
  },
  {
    method: 'GET',
    path: '/_apis/hooks/subscriptions',
    query: query({ ...VERSION, ...texts('publisherId', 'eventType', 'consumerId', 'consumerActionId') }),
  },
  { method: 'POST', path: '/_apis/hooks/subscriptions', query: query(VERSION), body: fields(subscription) },
  {
    method: 'PUT',
    path: '/_apis/hooks/subscriptions/{subscriptionId}',
    query: query(VERSION),
    body: fields({ ...subscription, id: z.string().regex(/^[0-9a-f-]{36}$/i) }),
  },
  {
    method: 'GET',
    path: '/{project}/_apis/wit/reporting/workitemrevisions',
    query: query({
      ...VERSION,
      ...texts('fields', 'types', 'continuationToken', 'startDateTime'),
      includeIdentityRef: truth,
      includeDeleted: truth,
      includeTagRef: truth,
      includeLatestOnly: truth,
      includeDiscussionChangesOnly: truth,
      $expand: z.enum(['none', 'fields']),
      $maxPageSize: number(1),
    }),
  },
  {
    method: 'POST',
    path: '/{project}/_apis/wit/wiql',
    query: query({ ...VERSION, timePrecision: truth, $top: number(1, 20_000) }),
    body: fields({ query: z.string() }),
  },
  {
    method: 'GET',
    path: '/_apis/wit/workitems/{id}',
    query: query({ ...VERSION, ...texts('fields', 'asOf'), $expand: EXPAND }),
  },
  {
    method: 'PATCH',
    path: '/_apis/wit/workitems/{id}',
    query: query({
      ...VERSION,
      validateOnly: truth,
      bypassRules: truth,
      suppressNotifications: truth,
      $expand: EXPAND,
    }),
    headers: patched,
    body: z.array(
      fields({
        op: z.enum(['add', 'remove', 'replace', 'move', 'copy', 'test']),
        path: z.string().startsWith('/'),
        value: z.unknown(),
      }),
    ),
  },
  { method: 'GET', path: '/{project}/_apis/wit/workitemtypes', query: query(VERSION) },
  { method: 'GET', path: '/{project}/_apis/wit/workitemtypes/{type}/states', query: query(VERSION) },
  {
    method: 'GET',
    path: '/{project}/_apis/wit/workItems/{workItemId}/comments',
    query: query({
      ...PREVIEW,
      ...texts('continuationToken'),
      $top: number(1, 200),
      includeDeleted: truth,
      $expand: z.enum(['none', 'reactions', 'renderedText', 'renderedTextOnly', 'all']),
      order: z.enum(['asc', 'desc']),
    }),
  },
  {
    method: 'POST',
    path: '/{project}/_apis/wit/workItems/{workItemId}/comments',
    query: query({ ...PREVIEW, format: z.enum(['markdown', 'html']) }),
    body: fields({ text: z.string() }),
  },
  {
    method: 'PATCH',
    path: '/{project}/_apis/wit/workItems/{workItemId}/comments/{commentId}',
    query: query({ ...PREVIEW, format: z.enum(['markdown', 'html']) }),
    body: fields({ text: z.string() }),
  },
];

export const azureBoards = described('https://dev.azure.com/{organization}', operations);
