import { z } from 'zod';
import { described, fields, type Operation } from './operation.ts';

/**
 * Shortcut's REST API v3 (https://developer.shortcut.com/api/rest/v3), as the types of `@shortcut/client` 3.4.1 tell it, which
 * are made of the same description (22 November 2026): `SearchStories`, `UpdateStory`, `CreateStoryComment`, `UpdateStoryComment`.
 */
const time = z.iso.datetime({ offset: true });
const numbers = z.array(z.int());
const uuid = z.uuid().nullable();
const type = z.enum(['feature', 'chore', 'bug']);

const searchStories = fields({
  ...{ archived: z.boolean(), includes_description: z.boolean(), story_type: type },
  ...{ owner_id: uuid, owner_ids: z.array(z.uuid()), requested_by_id: z.uuid() },
  ...{ group_id: uuid, group_ids: z.array(z.uuid()) },
  ...{ epic_id: z.int().nullable(), epic_ids: numbers, iteration_id: z.int().nullable(), iteration_ids: numbers },
  ...{ project_id: z.int().nullable(), label_ids: numbers, label_name: z.string().min(1), estimate: z.int() },
  ...{ workflow_state_id: z.int(), external_id: z.string().max(1024) },
  workflow_state_types: z.array(z.enum(['started', 'backlog', 'unstarted', 'done'])),
  ...{ created_at_start: time, created_at_end: time, updated_at_start: time, updated_at_end: time },
  ...{ completed_at_start: time, completed_at_end: time, deadline_start: time, deadline_end: time },
}).partial();

const updateStory = fields({
  ...{ name: z.string(), description: z.string(), archived: z.boolean(), story_type: type, group_id: uuid },
  ...{ workflow_state_id: z.int(), owner_ids: z.array(z.uuid()), follower_ids: z.array(z.uuid()) },
}).partial();

const headers = z.looseObject({ 'shortcut-token': z.string() });
const text = fields({ text: z.string() });

const operations: readonly Operation[] = [
  { method: 'GET', path: '/member' },
  { method: 'GET', path: '/groups' },
  { method: 'GET', path: '/groups/{group-public-id}' },
  { method: 'GET', path: '/workflows/{workflow-public-id}' },
  { method: 'POST', path: '/stories/search', body: searchStories },
  { method: 'GET', path: '/stories/{story-public-id}' },
  { method: 'PUT', path: '/stories/{story-public-id}', body: updateStory },
  { method: 'GET', path: '/stories/{story-public-id}/comments' },
  { method: 'POST', path: '/stories/{story-public-id}/comments', body: text },
  { method: 'PUT', path: '/stories/{story-public-id}/comments/{comment-public-id}', body: text },
];

export const shortcut = described(
  'https://api.app.shortcut.com/api/v3',
  operations.map((operation) => ({ headers, ...operation })),
);
