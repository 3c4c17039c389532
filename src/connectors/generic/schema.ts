import { z } from 'zod';
import { absent, instant, webAddress } from '../kit/payload.ts';

/**
 * The shape that this connector accepts, which its README describes. Identity and time are required; any other field that is
 * missing, or of another type, is absent: it is then neither compared nor cleared.
 */

/** An id in keys and in addresses. */
export const id = z.string().regex(/^(?!\.{1,2}$)[\w.~-]{1,200}$/);

const text = z.string().min(1);

const project = z.object({ id, name: absent(text) });

export const item = z.object({
  id,
  project,
  identifier: text.max(200),
  updatedAt: instant,
  version: absent(z.int().min(0)),
  url: absent(webAddress),
  title: absent(z.string()),
  description: absent(z.string().nullable()),
  state: absent(z.enum(['open', 'in_progress', 'done'])),
  isDropped: absent(z.boolean()),
  rawState: absent(text),
  type: absent(text.nullable()),
  priority: absent(text.nullable()),
  labels: absent(z.array(text)),
  author: absent(text.nullable()),
  assignees: absent(z.array(text)),
  emails: absent(z.record(text, z.email())),
  createdAt: absent(instant),
  closedAt: absent(instant.nullable()),
  isPublic: absent(z.boolean()),
  isBot: absent(z.boolean()),
  isAuthorMember: absent(z.literal(true)),
});

export type GenericItem = z.infer<typeof item>;

/** The event of Standard Webhooks: a type, a time, and the data. */
export const event = z.object({ type: text, data: z.unknown() });

export const itemUpdated = z.object({ data: item });

export const itemDeleted = z.object({
  timestamp: instant,
  data: z.object({ id, project, identifier: text.max(200), updatedAt: absent(instant) }),
});

/** The body that `fetch` writes for an item that no longer exists. */
export const gone = z.object({ id, project, identifier: text, seenAt: instant });
