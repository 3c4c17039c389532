import { z } from 'zod';
import { absent, instant, keptBy, UUID, webAddress } from '../kit/payload.ts';

/** The fields that are read, and no others (SH2); all but identity and time are `absent` where they drift. */

/** Numbers, and their form in addresses. */
const number = z.int().min(1);
export const id = z.string().regex(/^[1-9]\d{0,15}$/);
export const uuid = z.string().regex(UUID);
const text = z.string().min(1);

export const team = z.object({
  id: uuid,
  mention_name: z.string().regex(/^[A-Za-z0-9._-]{1,100}$/),
  archived: absent(z.boolean()),
});

export type Team = z.infer<typeof team>;

const story = z.object({
  id: number,
  /** The team. */
  group_id: uuid,
  created_at: instant,
  /** Null if it was never changed. */
  updated_at: instant.nullish(),
  app_url: absent(webAddress),
  name: absent(z.string()),
  description: absent(z.string().nullable()),
  archived: absent(z.boolean()),
  started: absent(z.boolean()),
  completed: absent(z.boolean()),
  completed_at: absent(instant.nullable()),
  story_type: absent(text),
  labels: absent(z.array(z.object({ name: text }))),
  owner_ids: absent(z.array(text)),
  requested_by_id: absent(text),
});

/** A story as it is stored: with its team if its scope is still to be checked. */
export const found = z.object({ story, team: team.optional() });

export type Found = z.infer<typeof found>;

export const page = z.array(z.unknown());

/** A list of a poll. */
export const list = z.array(story);

/** The body of a webhook, with one or many changes. */
export const event = z.object({
  changed_at: z.string(),
  actions: z.array(z.looseObject({ entity_type: z.string() })),
});

export const storyAction = z.object({ id: number });

/** The required parts of a fetched story, which may be without a team. */
export const aStory = z.looseObject({ id: number, group_id: uuid.nullish() });

export const member = z.object({ id: text, name: z.string().catch('somebody') });

export const comment = z.object({
  id: number,
  text: z.string().nullish(),
  author_id: absent(text.nullable()),
  deleted: absent(z.boolean()),
});

export const closing = z.object({ completed: z.boolean(), workflow_id: z.int() });

export const workflow = z.object({
  states: z.array(z.object({ id: z.int(), name: z.string(), type: z.string(), position: z.number() })),
});

export const { kept: KEPT, slim } = keptBy(story);
