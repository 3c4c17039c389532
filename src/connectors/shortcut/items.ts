import type { WorkItem } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { closingOf, identityOf, webhookReference } from '../kit/items.ts';
import { omitUndefined, read, readable, sorted } from '../kit/payload.ts';
import { timeOf } from '../kit/walk.ts';
import { PUBLIC_HOST } from './options.ts';
import * as schema from './schema.ts';

export const PARTS = {
  id: 'shortcut',
  itemId: { shape: schema.id, locator: 'storyId', gone: 'storyId' },
  containerId: { shape: schema.uuid, locator: 'teamId', gone: 'teamId' },
  identifier: (id: string) => `sc-${id}`,
} as const;

/**
 * A webhook has the changes of one or many stories, but neither their team nor the rest: worksync reads each, and checks whether
 * its team is followed. A story without a readable number does not block the others. Throws `delivery_malformed`.
 */
export function parseWebhook(payload: unknown): Translation | undefined {
  const { actions } = read(schema.event, payload);
  const stories = actions.filter(({ entity_type: type }) => type === 'story');
  const ids = new Set(stories.flatMap((action) => readable(schema.storyAction, action)?.id ?? []).map(String));
  if (ids.size === 0 && stories.length > 0) read(schema.storyAction, stories[0]);
  if (ids.size === 0) return undefined;
  return { outcome: 'references', references: [...ids].map((id) => webhookReference(PARTS, PUBLIC_HOST, { id })) };
}

export function placeOf({ id, mention_name: name, archived }: schema.Team) {
  return { id, name: name.toLowerCase(), archived };
}

/** Returns the stories of a page of a poll. Throws `delivery_malformed`. */
export function foundOn(payload: unknown): readonly schema.Found[] {
  return read(schema.list, payload).map((story) => ({ story }));
}

/** Epoch milliseconds; NaN if it cannot be read. An unchanged story has the time of its creation. */
export function changedAt(story: unknown): number {
  const changed = timeOf(story, 'updated_at');
  return Number.isNaN(changed) ? timeOf(story, 'created_at') : changed;
}

export function itemOf({ story }: schema.Found): WorkItem {
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
