import { SyncError } from '../../model/errors.ts';
import type { Grammar, WorkItem } from '../../model/item.ts';
import { type PostedComment, plainComment } from '../../model/notice.ts';
import { isSameSecret } from '../../platform/lib/digest.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { Translation, VerifiedRequest, WebhookRequest } from '../connector.ts';
import { closingOf, identityOf, type WebhookFacts } from '../kit/items.ts';
import { readTenant } from '../kit/options.ts';
import { emailsOf, omitUndefined, read, readable, sorted } from '../kit/payload.ts';
import { segmentOf } from '../kit/rest.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { EVENT_IN_BODY, requireSecrets, requireText, signatureMismatch, singleHeader } from '../kit/verify.ts';
import { connect } from './connect.ts';
import { textOfHtml } from './html.ts';
import { type Options, options, scopeOf, webBase } from './options.ts';
import * as schema from './schema.ts';

/** The header of subscriptions that send a header of their own. */
const HEADER = 'x-worksync-secret';
const BASIC = /^Basic ([A-Za-z0-9+/]{1,4000}={0,2})$/;

/**
 * Proves that Azure DevOps sent the request. It signs nothing: a service hook repeats the password that its
 * subscription was made with, as HTTP Basic authentication or as a header of its own (AZ1). Every live secret is
 * compared, in constant time; a user name is not looked at. `Authorization`, where it is sent, decides alone.
 *
 * The id of the event stands in the body too: the bytes themselves tell a repetition.
 */
async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  const given = passwordOf(request);
  let valid = false;
  for (const secret of secrets) valid = isSameSecret(given, secret) || valid;
  if (!valid) throw new SyncError('signature_mismatch', 'the password does not match');
  requireText(request.body);
  return { event: EVENT_IN_BODY };
}

function passwordOf(request: WebhookRequest): string {
  const { headers } = request;
  if (headers['authorization'] === undefined && headers[HEADER] === undefined)
    throw new SyncError('signature_missing', `the request has neither Authorization nor ${HEADER}`);
  if (headers['authorization'] === undefined) {
    const own = singleHeader(request, HEADER);
    if (own === undefined) throw signatureMismatch('is not one password');
    return own;
  }
  const encoded = BASIC.exec(singleHeader(request, 'authorization') ?? '')?.[1];
  const decoded = encoded === undefined ? '' : Buffer.from(encoded, 'base64').toString('utf8');
  const colon = decoded.indexOf(':');
  if (colon === -1) throw signatureMismatch('is not one of HTTP Basic authentication');
  return decoded.slice(colon + 1);
}

/** In a list behind one word only the first is closed (AZ4). */
export const grammar: Grammar = {
  closing: ['fix', 'fixes', 'fixed'],
  closes: 'next',
  names: ['AB#'],
  addresses: [
    [
      '//dev.azure.com/{organization}/_workitems/edit/{number}',
      ...['//dev.azure.com/{organization}', '//{organization}.visualstudio.com'].flatMap((place) => [
        `${place}/…/_workitems/edit/{number}`,
        `${place}/…/_workitems?id={number}`,
        `${place}/…?workitem={number}`,
      ]),
    ],
  ],
};

/** Azure Boards of Azure DevOps Services. */
export const azureBoards = trackerConnector({
  id: 'azure-boards',
  title: 'Azure Boards',
  publicHost: 'dev.azure.com',
  capabilities: { pollsSince: true, reportsDeletions: true, supportsLabels: true, supportsAssignees: true },
  grammar,
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: ({ organizationId }) => organizationId,
  verify,
  sign: (_body, secret) => ({ authorization: `Basic ${Buffer.from(`worksync:${secret}`).toString('base64')}` }),
  eventOf: (payload) => readable(schema.serviceHook, payload) && EVENT_IN_BODY,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host) => {
    const organizationId = readTenant(host, "organisation's id");
    return options.parse({ organization: 'any', organizationId, projects: ['*'] });
  },
  noun: 'workitems',
  container: {
    word: 'project',
    option: 'projects',
    hint: 'Give its account access to them, or correct projects.',
  },
  scopeOf,
  candidate: (project) => project,
  unitBy: 'id',
  itemId: { shape: schema.number, locator: 'id', gone: 'id' },
  containerId: { shape: schema.projectId, locator: 'projectId', gone: 'projectId' },
  identifier: (id) => id,
  parseWebhook,
  found: schema.workItem,
  itemOf,
  containerOf: ({ project }) => project,
  order: 'since',
  changedAt: schema.changedAt,
  isDone: schema.isDone,
  connect,
});

const FOLLOWED = new Set([
  'workitem.created',
  'workitem.updated',
  'workitem.deleted',
  'workitem.restored',
  'workitem.commented',
]);

/**
 * Returns the work item of an event, also of a deletion. No event is sufficient: each process chooses the names of its states,
 * whose meaning only the API has, and a subscription may send no fields at all. Without a project name, the fetched item decides
 * about the scope. Throws `delivery_malformed`.
 */
function parseWebhook(payload: unknown): WebhookFacts | Translation | undefined {
  const { eventType } = read(schema.event, payload);
  if (!FOLLOWED.has(eventType)) return undefined;
  if (isTest(payload)) return { outcome: 'ignored', reason: 'test_delivery' };
  const { resource, resourceContainers, createdDate } = read(schema.workItemEvent, payload);
  const { id: own, workItemId = resource.revision?.id } = resource;
  const id = eventType === 'workitem.updated' ? workItemId : (own ?? workItemId);
  if (id === undefined) throw new SyncError('delivery_malformed', 'resource: names no work item');
  const projectId = resourceContainers?.project?.id;
  const name = (resource.revision?.fields ?? resource.fields)?.['System.TeamProject'];
  const container = projectId === undefined ? undefined : { id: projectId, name };
  const changedAt = createdDate === undefined ? undefined : Date.parse(createdDate);
  return { id: String(id), container, changedAt, comment: commentOf(payload, eventType) };
}

/** A change of more than a comment counts, whoever made it. */
function commentOf(payload: unknown, eventType: string): PostedComment | undefined {
  if (eventType === 'workitem.commented') {
    const fields = readable(schema.commented, payload)?.resource.fields;
    return fields && asWritten(fields['System.ChangedBy'].id, fields['System.History']);
  }
  const changed = eventType === 'workitem.updated' ? readable(schema.changed, payload)?.resource : undefined;
  if (!changed || Object.keys(changed.fields).some((field) => !schema.OF_EVERY_REVISION.has(field))) return undefined;
  return asWritten(changed.revisedBy.id, changed.fields['System.History'].newValue);
}

function asWritten(author: string, html: string): PostedComment {
  return { author, text: plainComment(textOfHtml(html)) };
}

const NIL = '00000000-0000-0000-0000-000000000000';
/** The project of every sample in the reference of service hooks, which the "Test" button sends. */
const SAMPLE_PROJECT = 'be9b3917-87e6-42a4-a549-2bc06a7a878f';

/** The "Test" button sends the sample of the documentation: without a subscription, of that project, or of work item 0. */
function isTest(payload: unknown): boolean {
  const event = readable(schema.testEvent, payload);
  if (!event) return false;
  const { subscriptionId, resource, resourceContainers } = event;
  const isNothing = resource?.workItemId === 0 || resource?.id === 0;
  return isNothing || subscriptionId === NIL || resourceContainers?.project?.id === SAMPLE_PROJECT;
}

/** Numbers are unique in the whole organisation, and stay when a work item is moved. */
function itemOf(found: schema.AzureWorkItem, options: Options): WorkItem {
  const { fields, project, category } = found;
  const { 'System.AssignedTo': assignee, 'System.CreatedBy': author } = fields;
  const { 'System.Tags': tags, 'Microsoft.VSTS.Common.Priority': priority } = fields;
  const { 'Microsoft.VSTS.Common.ClosedDate': closed, 'Microsoft.VSTS.Common.StateChangeDate': changed } = fields;
  const state = category === undefined ? undefined : STATES.get(category);
  const id = String(found.id);
  return {
    ...identityOf('azure-boards', options.organizationId, { id, container: project.id, identifier: id }),
    updatedAt: Date.parse(fields['System.ChangedDate']),
    version: found.rev,
    containerName: project.name,
    url: `${webBase(options)}/${segmentOf(project.name)}/_workitems/edit/${found.id}`,
    ...(fields['System.IsDeleted'] === true ? { gone: true } : {}),
    ...omitUndefined({
      title: fields['System.Title'],
      description: descriptionOf(found),
      state,
      // Some types of work items have no date of closing (AZ5).
      ...closingOf(state, { isDropped: category === 'Removed', closedAt: closed ?? changed }),
      rawState: fields['System.State'],
      type: fields['System.WorkItemType'],
      priority: typeof priority === 'number' ? String(priority) : priority,
      labels: tags === undefined ? undefined : sorted(tagsOf(tags ?? '')),
      assignees: assignee === null ? [] : assignee && [assignee.id],
      author: author === null ? null : author?.id,
      emails: emailsOf([assignee, author].map((person) => [person?.id, person?.uniqueName])),
      createdAt: fields['System.CreatedDate'],
      phaseChangedAt: changed ?? undefined,
      isPublic: project.visibility === undefined ? undefined : project.visibility === 'public',
    }),
  };
}

/** Resolved is done but not yet verified, so it counts as in progress. */
const STATES: ReadonlyMap<string, NonNullable<WorkItem['state']>> = new Map([
  ['Proposed', 'open'],
  ['InProgress', 'in_progress'],
  ['Resolved', 'in_progress'],
  ['Completed', 'done'],
  ['Removed', 'done'],
]);

/**
 * Returns the texts of a work item, as its form shows them: the form of a bug has repro steps in place of a description.
 * Undefined if a text that decides cannot be read.
 */
function descriptionOf(found: schema.AzureWorkItem): string | null | undefined {
  const description = textOf(found, 'System.Description');
  const text = description === null ? textOf(found, 'Microsoft.VSTS.TCM.ReproSteps') : description;
  const criteria = textOf(found, 'Microsoft.VSTS.Common.AcceptanceCriteria');
  if (text === undefined || criteria === undefined) return undefined;
  return [text, criteria && `## Acceptance criteria\n\n${criteria}`].filter(Boolean).join('\n\n') || null;
}

type TextField = 'System.Description' | 'Microsoft.VSTS.TCM.ReproSteps' | 'Microsoft.VSTS.Common.AcceptanceCriteria';

function textOf({ fields, multilineFieldsFormat }: schema.AzureWorkItem, name: TextField): string | null | undefined {
  const given = fields[name];
  if (typeof given !== 'string') return given;
  const isMarkdown = multilineFieldsFormat?.[name]?.toLowerCase() === 'markdown';
  return (isMarkdown ? given.trim() : textOfHtml(given)) || null;
}

/** `upload; needs help` */
function tagsOf(tags: string): string[] {
  return tags
    .split(';')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '');
}
