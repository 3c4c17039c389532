import { z } from 'zod';

/** The fields that worksync reads of the workspace's answers; it ignores all others. */

export const taskShape = z.looseObject({
  taskId: z.string(),
  key: z.string(),
  title: z.string(),
  status: z.string(),
  workspaceId: z.string().optional().catch(undefined),
  source: z.string().catch('api'),
  createdAt: z.string().catch(''),
  updatedAt: z.string().catch(''),
  description: z.string().nullish().catch(undefined),
  reporterUserId: z.string().nullish().catch(undefined),
});

export type ListedTask = z.infer<typeof taskShape>;

export const recordShape = z.looseObject({
  provider: z.string(),
  repoId: z.string(),
  identifier: z.string(),
  url: z.string().nullish(),
  updatedAt: z.string().nullish(),
  taskIds: z.array(z.string()).optional(),
});

export type ListedRecord = z.infer<typeof recordShape>;

export const recordPage = z.object({ pullRequests: z.array(recordShape), nextCursor: z.string().nullish() });

export const linkShape = z.looseObject({
  taskId: z.string().optional(),
  workItemId: z.string(),
  url: z.string(),
  externalId: z.string().nullish(),
});

export type ListedLink = z.infer<typeof linkShape>;

export const taskList = z.object({ tasks: z.array(taskShape), unreadable: z.number().optional().catch(undefined) });

export const linkList = z.object({ workItems: z.array(linkShape) });

export const documentShape = z
  .looseObject({ taskId: z.string().nullish(), updatedAt: z.string().nullish().catch(null) })
  .nullable();

/** Where a document stands. */
export const standingDocument = z.object({
  documentId: z.string(),
  taskId: z.string().nullish().default(null),
  isMissing: z.boolean().default(false),
  updatedAt: z.string().nullish().catch(null),
});

export const standingDocuments = z.object({ documents: z.array(standingDocument) });

/** By the workspace's own clock. What tells no time is never older. */
export function isOlder(time: string | null | undefined, than: unknown): boolean {
  return typeof than === 'string' && Date.parse(time ?? '') < Date.parse(than);
}
