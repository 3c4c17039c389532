import { z } from 'zod';
import { absent, instant, keptBy, webAddress } from '../kit/payload.ts';

/** The fields that are read, and no others (SE2); all but identity and time are `absent` where they drift. */

/** Numbers, written as texts. */
export const id = z.string().regex(/^[1-9]\d{0,19}$/);
export const shortId = z.string().regex(/^[A-Z0-9][A-Z0-9_-]{0,127}-[A-Z0-9]{1,16}$/);
const slug = z.string().regex(/^[a-z0-9_-]{1,100}$/);
const text = z.string().min(1);

export const project = z.object({ id, slug });

export type Project = z.infer<typeof project>;

/** A person or a team; older versions write a person without a type. */
const assignee = absent(
  z.object({ id: z.union([text, z.int()]).transform(String), type: absent(text), email: absent(z.email()) }).nullable(),
);

export const issue = z.object({
  id,
  shortId,
  project,
  lastSeen: instant,
  title: absent(z.string()),
  culprit: absent(z.string().nullable()),
  permalink: absent(webAddress),
  web_url: absent(webAddress),
  status: absent(text),
  substatus: absent(text.nullable()),
  level: absent(text),
  priority: absent(text.nullable()),
  type: absent(text),
  assignedTo: assignee,
  firstSeen: absent(instant),
});

export type SentryIssue = z.infer<typeof issue>;

export const issueEvent = z.object({ action: absent(text), data: z.object({ issue }) });

export const namedIssue = z.object({
  data: z.object({ issue: z.object({ id, shortId: absent(shortId), project: absent(project.nullable()) }) }),
});

export const anIssue = z.looseObject({ id });

export const organization = z.object({ name: z.string().catch('without a name') });

export const note = z.object({
  id: z.union([z.string().regex(/^\d{1,20}$/), z.int()]),
  data: z.object({ text: z.string() }),
});

export type Note = z.infer<typeof note>;

export const { kept: KEPT, slim } = keptBy(issue);
