import { z } from 'zod';
import type { Shape } from '../../platform/lib/shape.ts';
import { absent, instant, keptBy, readable, UUID } from '../kit/payload.ts';

/** The fields that are read, and no others (AZ2); all but identity and time are `absent` where they drift. */
const itemId = z.int().positive();
export const number = z.string().regex(/^[1-9]\d{0,14}$/);
export const projectId = z.string().regex(UUID);
const text = z.string().min(1);

/** Azure leaves out empty fields, which are then null. A field of another type is absent, as everywhere. */
const emptied = <Field extends z.ZodType>(field: Field) =>
  z.union([field.nullable().default(null), z.unknown().transform(() => undefined)]);

/** An identity; some payloads have a text in its place, which identifies nobody. */
const person = emptied(z.object({ id: text, uniqueName: absent(z.email()) }));

/** Names have 64 characters at most; a longer one would make an invalid address. */
export const project = z.object({ id: projectId, name: text.max(200), visibility: absent(text) });

export type Project = z.infer<typeof project>;

const fields = z.object({
  'System.ChangedDate': instant,
  'System.Title': absent(z.string()),
  'System.Description': emptied(z.string()),
  'Microsoft.VSTS.TCM.ReproSteps': emptied(z.string()),
  'Microsoft.VSTS.Common.AcceptanceCriteria': emptied(z.string()),
  'System.State': absent(text),
  'System.WorkItemType': absent(text),
  'System.AssignedTo': person,
  'System.CreatedBy': person,
  'System.CreatedDate': absent(instant),
  'System.Tags': emptied(z.string()),
  'System.TeamProject': absent(text),
  'System.IsDeleted': absent(z.boolean()),
  'Microsoft.VSTS.Common.Priority': emptied(z.number()),
  'Microsoft.VSTS.Common.ClosedDate': emptied(instant),
  'Microsoft.VSTS.Common.StateChangeDate': emptied(instant),
});

const told = z.object({
  id: itemId,
  rev: z.int().positive(),
  fields,
  multilineFieldsFormat: absent(z.record(z.string(), z.string())),
});

/** A work item, with the additional category of its state, and the project by its id. */
export const workItem = told.extend({ project, category: absent(z.string()) });

export type AzureWorkItem = z.infer<typeof workItem>;

/** The part that every event has; its type decides which of the parts below it has too. */
export const event = z.object({ eventType: text });

/** Distinguishes service hooks from other bodies that name an event, if there are no headers. */
export const serviceHook = event.extend({ publisherId: text });

const toldFields = absent(z.object({ 'System.TeamProject': absent(text) }));

/**
 * Every event of a work item names it, at one of two places: in an update, `id` is the number of the update. With minimal detail,
 * there is nothing else.
 */
export const workItemEvent = z.object({
  resource: z.object({
    id: absent(itemId),
    workItemId: absent(itemId),
    fields: toldFields,
    revision: absent(z.object({ id: absent(itemId), fields: toldFields })),
  }),
  resourceContainers: absent(z.object({ project: absent(z.object({ id: projectId })) })),
  createdDate: absent(instant),
});

const account = z.object({ id: text });

/** A comment is a revision of its work item with two events: its creation, and its changes. */
export const commented = z.object({
  resource: z.object({ fields: z.object({ 'System.History': z.string(), 'System.ChangedBy': account }) }),
});
export const changed = z.object({
  resource: z.object({
    revisedBy: account,
    fields: z.looseObject({ 'System.History': z.object({ newValue: z.string() }) }),
  }),
});

/** Fields that change with every revision. */
export const OF_EVERY_REVISION: ReadonlySet<string> = new Set([
  'System.AuthorizedAs',
  'System.AuthorizedDate',
  'System.ChangedBy',
  'System.ChangedDate',
  'System.CommentCount',
  'System.History',
  'System.PersonId',
  'System.Rev',
  'System.RevisedDate',
  'System.Watermark',
]);

/** The parts that distinguish deliveries of the "Test" button from others. */
export const testEvent = z.object({
  subscriptionId: absent(z.string()),
  resource: absent(z.object({ id: absent(z.int()), workItemId: absent(z.int()) })),
  resourceContainers: absent(z.object({ project: absent(z.object({ id: absent(z.string()) })) })),
});

export const batch = z.object({
  values: z.array(z.unknown()),
  isLastBatch: z.boolean(),
  continuationToken: z.string().optional(),
});

export const ids = z.object({ workItems: z.array(z.object({ id: itemId })) });

export const placed = z.object({ fields: z.object({ 'System.TeamProject': text }) });

export const who = z.object({
  instanceId: z.string().toLowerCase(),
  authenticatedUser: z.object({ id: z.string(), providerDisplayName: z.string().catch('somebody') }),
});

export type Who = z.infer<typeof who>;

const createdBy = absent(z.object({ id: z.string() }));

export const written = z.object({ createdBy });

export const comments = z.object({
  comments: z.array(written.extend({ id: z.int().positive(), text: z.string().catch('') })),
  continuationToken: z.string().optional(),
});

export const current = z.object({
  rev: z.int().positive(),
  fields: z.object({ 'System.WorkItemType': text, 'System.TeamProject': text }),
});

const timed = z.object({ fields: z.object({ 'System.ChangedDate': z.string() }) });

/** Epoch milliseconds; NaN if it cannot be read. */
export function changedAt(found: unknown): number {
  return Date.parse(readable(timed, found)?.fields['System.ChangedDate'] ?? '');
}

const done = z.object({ category: z.enum(['Completed', 'Removed']) });

export function isDone(found: unknown): boolean {
  return readable(done, found) !== undefined;
}

export const { kept: KEPT, slim } = keptBy(told);

/** A deleted work item is not found at all, so that field is not requested. */
export const FIELDS = Object.keys(fields.shape)
  .filter((name) => name !== 'System.IsDeleted')
  .join(',');

export const KEPT_PAGE: Shape = { values: KEPT, isLastBatch: true, continuationToken: true };
