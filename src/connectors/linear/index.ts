import { z } from 'zod';
import type { Grammar, WorkItem } from '../../model/item.ts';
import { type PostedComment, plainComment } from '../../model/notice.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { Translation } from '../connector.ts';
import { closingOf, identityOf, type WebhookFacts } from '../kit/items.ts';
import { ANY_TENANT, readTenant } from '../kit/options.ts';
import { emailsOf, omitUndefined, parseAnswer, read, readable, sorted } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { hmacSigning } from '../kit/verify.ts';
import { timeOf } from '../kit/walk.ts';
import { connect } from './connect.ts';
import { type Options, options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** One word covers a whole list, `Fixes ENG-1, DES-5 and ENG-6` (LI4). */
const grammar: Grammar = {
  closing: [
    ...['close', 'closes', 'closed', 'closing'],
    ...['fix', 'fixes', 'fixed', 'fixing'],
    ...['resolve', 'resolves', 'resolved', 'resolving'],
    ...['complete', 'completes', 'completed', 'completing'],
    ...['implement', 'implements', 'implemented', 'implementing'],
    'linear issue',
  ],
  mentioning: [
    ...['ref', 'refs', 'references', 'part of', 'contributes to', 'toward', 'towards'],
    ...['relates to', 'related to'],
  ],
  suppressing: ['skip', 'ignore'],
  closes: 'list',
  names: ['key'],
  addresses: [['//linear.app/{workspace}/issue/{key}', '//linear.app/{workspace}/issue/{key}/{title}']],
};

const swept = z.array(z.object({ id: schema.id, trashed: z.boolean().nullish() }));

export const linear = trackerConnector({
  id: 'linear',
  title: 'Linear',
  publicHost: 'linear.app',
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
    reportsDeletions: true,
    supportsLabels: true,
    supportsAssignees: true,
  },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  accepted: 200,
  options,
  host: ({ organizationId }) => organizationId,
  /**
   * LI1. The time that is signed stands in the body, which is not read here. A request that is sent again later is harmless: it
   * has an older state of an issue than worksync knows, and is superseded.
   */
  ...hmacSigning({
    header: 'linear-signature',
    event: { header: 'linear-event' },
    delivery: 'linear-delivery',
  }),
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host) => options.parse({ organizationId: readTenant(host, "organisation's id"), teams: ['*'] }),
  oauth: ({ oauth }) => oauth && { ...oauth, encoding: 'form' },
  noun: 'issues',
  container: {
    word: 'team',
    option: 'teams',
    hint: 'Private teams need a member of theirs. Correct teams, or use another credential.',
  },
  scopeOf,
  candidate: placeOf,
  unitBy: 'id',
  itemId: { shape: schema.id, locator: 'issueId', gone: 'id' },
  containerId: { shape: schema.id, locator: 'teamId', gone: 'teamId' },
  identifier: { shape: schema.identifier, locator: 'identifier', gone: 'identifier' },
  follows: (event) => PARSERS.has(event),
  parseWebhook,
  found: schema.issue,
  itemOf,
  containerOf: ({ team }) => placeOf(team),
  order: 'since',
  changedAt: (issue) => timeOf(issue, 'updatedAt'),
  /** Leaves out those in the trash: a fetch then shows that they are gone. */
  idsOf: (found, what) =>
    parseAnswer(swept, found, what)
      .filter(({ trashed }) => trashed !== true)
      .map(({ id }) => id),
  connect,
});

const PARSERS: ReadonlyMap<string, (payload: unknown, options: Options) => WebhookFacts | Translation> = new Map<
  string,
  (payload: unknown, options: Options) => WebhookFacts | Translation
>([
  ['Issue', issueEvent],
  ['Comment', commentEvent],
]);

function parseWebhook(payload: unknown, options: Options, event: string): WebhookFacts | Translation | undefined {
  const { organizationId = options.organizationId } = read(schema.organization, payload);
  if (options.organizationId !== ANY_TENANT && organizationId !== options.organizationId)
    return { outcome: 'ignored', reason: 'organization_not_configured' };
  return PARSERS.get(event)?.(payload, options);
}

/** Older payloads, without `webhookId` and `organizationId`, have no more fields. */
const event = z.object({ type: z.string().min(1), action: z.string(), data: z.looseObject({ id: z.string() }) });

/** Pure. The body repeats the event of the header. */
function eventOf(payload: unknown): string | undefined {
  return readable(event, payload)?.type;
}

function named({ id, identifier, team }: z.infer<typeof schema.namedIssue>['data']): WebhookFacts {
  return { id, identifier, container: team ? placeOf(team) : undefined };
}

/** Every such event contains the whole issue; a removed one is in the trash, or deleted. */
function issueEvent(payload: unknown, options: Options): WebhookFacts {
  const whole = readable(schema.issueEvent, payload);
  if (!whole) return named(read(schema.namedIssue, payload).data);
  const { action, createdAt, data, updatedFrom = {} } = whole;
  const found = fromHook(data, options);
  const item = 'stateId' in updatedFrom ? { ...found, phaseChangedAt: new Date(found.updatedAt).toISOString() } : found;
  if (action !== 'remove') return { ...named(data), item };
  // The removal of an issue does not change its own time: the event's time is later.
  return { ...named(data), goneAt: Math.max(item.updatedAt, createdAt === undefined ? 0 : Date.parse(createdAt)) };
}

function commentEvent(payload: unknown): WebhookFacts | Translation {
  const { issue, issueId } = read(schema.commentEvent, payload).data;
  const about = issue ?? (typeof issueId === 'string' ? { id: issueId } : undefined);
  if (!about) return { outcome: 'ignored', reason: 'not_an_issue' };
  return { ...named(about), comment: toldComment(payload) };
}

function toldComment(payload: unknown): PostedComment | undefined {
  const comment = readable(schema.toldComment, payload);
  return comment && { id: comment.data.id, author: comment.actor.id, text: plainComment(comment.data.body) };
}

function placeOf({ id, key: name }: Pick<schema.Team, 'id' | 'key'>) {
  return { id, name };
}

function itemOf(found: schema.LinearIssue, options: Options): WorkItem {
  const { assignee, creator, labels } = found;
  return {
    ...common(found, options),
    ...omitUndefined({
      // An incomplete list of labels would look complete.
      labels: labels?.pageInfo.hasNextPage === false ? sorted(labels.nodes.map(({ name }) => name)) : undefined,
      assignees: assignee === undefined ? undefined : assignee === null ? [] : [assignee.id],
      author: creator === null ? null : creator?.id,
      isBot: creator?.app,
      emails: emailsOf([assignee, creator].map((person) => [person?.id, person?.email])),
    }),
  };
}

function fromHook(data: schema.IssueEvent['data'], options: Options): WorkItem {
  const assigneeId = idOf(data.assigneeId, data.assignee);
  return {
    ...common(data, options),
    ...omitUndefined({
      labels: sorted(data.labels?.map(({ name }) => name)),
      assignees: assigneeId === undefined ? undefined : assigneeId === null ? [] : [assigneeId],
      author: idOf(data.creatorId, data.creator),
    }),
  };
}

/** Returns the id from either field; null for nobody; absent only if both fields are. */
function idOf(id: string | null | undefined, person: schema.LinearIssue['assignee']): string | null | undefined {
  if (id !== undefined) return id;
  return person === null ? null : person?.id;
}

type Common = Omit<schema.LinearIssue, 'labels' | 'assignee' | 'creator'>;

/** Fields that webhooks and the API write alike. The identifier changes when an issue is moved to another team. */
function common(found: Common, { organizationId }: Options): WorkItem {
  const { id, identifier, team, priority } = found;
  const state = found.state && STATES.get(found.state.type);
  const isDropped = found.state?.type !== 'completed';
  return {
    ...identityOf('linear', organizationId, { id, container: team.id, identifier }),
    updatedAt: Date.parse(found.updatedAt),
    containerName: team.key,
    ...(found.trashed === true ? { gone: true } : {}),
    ...omitUndefined({
      formerIdentifiers: found.previousIdentifiers?.length ? sorted(found.previousIdentifiers) : undefined,
      url: found.url?.replace(SLUG, '$1'),
      title: found.title,
      description: found.description === '' ? null : found.description,
      state,
      ...closingOf(state, { isDropped, closedAt: isDropped ? found.canceledAt : found.completedAt }),
      rawState: found.state?.name,
      priority: priority === undefined ? undefined : (PRIORITIES.get(priority) ?? null),
      createdAt: found.createdAt,
    }),
  };
}

/** The title is at the end of an address, which works without it too, and then stays the same. */
const SLUG = /^(https:\/\/linear\.app\/[\w-]+\/issue\/[A-Z0-9]+-\d+)\/.*$/;

/** Types are Linear's own; people name the states. An issue of the last two types has the time of its cancellation (LI5). */
const STATES: ReadonlyMap<string, NonNullable<WorkItem['state']>> = new Map([
  ['triage', 'open'],
  ['backlog', 'open'],
  ['unstarted', 'open'],
  ['started', 'in_progress'],
  ['completed', 'done'],
  ['canceled', 'done'],
  ['duplicate', 'done'],
]);

/** 0 means none. */
const PRIORITIES: ReadonlyMap<number, string> = new Map([
  [1, 'Urgent'],
  [2, 'High'],
  [3, 'Medium'],
  [4, 'Low'],
]);
