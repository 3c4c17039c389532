import type { Grammar, WorkItem } from '../../model/item.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { Translation } from '../connector.ts';
import { closingOf, identityOf, webhookReference } from '../kit/items.ts';
import { omitUndefined, read, readable, sorted } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { EVENT_IN_BODY, hmacSigning } from '../kit/verify.ts';
import { timeOf } from '../kit/walk.ts';
import { connect } from './connect.ts';
import { options, PUBLIC_HOST, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** `[sc-318]`, `[Finishes sc-318]`, and addresses with the title at their end (SH4). */
const grammar: Grammar = {
  closing: [
    ...['finish', 'finishes', 'finished', 'complete', 'completes', 'completed'],
    ...['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  ],
  closes: 'list',
  names: ['sc-'],
  addresses: [
    ['//app.shortcut.com/{workspace}/story/{number}', '//app.shortcut.com/{workspace}/story/{number}/{title}'],
  ],
};

const PARTS = {
  id: 'shortcut',
  itemId: { shape: schema.id, locator: 'storyId', gone: 'storyId' },
  containerId: { shape: schema.uuid, locator: 'teamId', gone: 'teamId' },
  identifier: (id: string) => `sc-${id}`,
} as const;

export const shortcut = trackerConnector({
  ...PARTS,
  title: 'Shortcut',
  publicHost: PUBLIC_HOST,
  capabilities: { pollsSince: true, supportsLabels: true, supportsAssignees: true },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  options,
  host: () => PUBLIC_HOST,
  /** SH1. */
  ...hmacSigning({ header: 'payload-signature' }),
  eventOf: (payload) => readable(schema.event, payload) && EVENT_IN_BODY,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: () => options.parse({ token: 'none', teams: ['*'] }),
  noun: 'stories',
  container: {
    word: 'team',
    option: 'teams',
    hint: 'Use a token of a member who sees the teams, or correct teams.',
  },
  scopeOf,
  candidate: placeOf,
  unitBy: 'name',
  parseWebhook,
  found: schema.found,
  itemsOnPage: foundOn,
  itemOf,
  containerOf: ({ story, team }) => (team?.id === story.group_id ? placeOf(team) : { id: story.group_id, name: '' }),
  needsScopeCheck: ({ team }) => team !== undefined,
  containerShape: schema.team,
  order: 'since',
  changedAt,
  connect,
});

/**
 * A webhook has the changes of one or many stories, but neither their team nor the rest: worksync reads each, and checks whether
 * its team is followed. A story without a readable number does not block the others. Throws `delivery_malformed`.
 */
function parseWebhook(payload: unknown): Translation | undefined {
  const { actions } = read(schema.event, payload);
  const stories = actions.filter(({ entity_type: type }) => type === 'story');
  const ids = new Set(stories.flatMap((action) => readable(schema.storyAction, action)?.id ?? []).map(String));
  if (ids.size === 0 && stories.length > 0) read(schema.storyAction, stories[0]);
  if (ids.size === 0) return undefined;
  return { outcome: 'references', references: [...ids].map((id) => webhookReference(PARTS, PUBLIC_HOST, { id })) };
}

function placeOf({ id, mention_name: name, archived }: schema.Team) {
  return { id, name: name.toLowerCase(), archived };
}

/** Returns the stories of a page of a poll. Throws `delivery_malformed`. */
function foundOn(payload: unknown): readonly schema.Found[] {
  return read(schema.list, payload).map((story) => ({ story }));
}

/** Epoch milliseconds; NaN if it cannot be read. An unchanged story has the time of its creation. */
function changedAt(story: unknown): number {
  const changed = timeOf(story, 'updated_at');
  return Number.isNaN(changed) ? timeOf(story, 'created_at') : changed;
}

function itemOf({ story }: schema.Found): WorkItem {
  const { description, labels, requested_by_id: author } = story;
  const state = stateOf(story);
  const isDropped = story.completed === undefined ? undefined : !story.completed;
  const id = String(story.id);
  return {
    ...identityOf(PARTS.id, PUBLIC_HOST, { id, container: story.group_id, identifier: PARTS.identifier(id) }),
    updatedAt: Date.parse(story.updated_at ?? story.created_at),
    ...omitUndefined({
      url: story.app_url,
      title: story.name,
      description: description === undefined ? undefined : description || null,
      state,
      ...closingOf(state, { isDropped, closedAt: story.completed_at }),
      type: story.story_type,
      labels: sorted(labels?.map(({ name }) => name)),
      assignees: sorted(story.owner_ids),
      author,
      createdAt: story.created_at,
    }),
  };
}

/** Archived is done: nobody should work on it. Absent if Shortcut does not report it. */
function stateOf({ archived, completed, started }: schema.Found['story']): WorkItem['state'] {
  if (archived || completed) return 'done';
  if (completed === undefined || started === undefined) return undefined;
  return started ? 'in_progress' : 'open';
}
