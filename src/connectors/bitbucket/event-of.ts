import { z } from 'zod';
import { readable } from '../kit/payload.ts';

const pullRequestPayload = z.object({
  pullrequest: z.object({ state: z.string().optional(), created_on: z.string().optional(), updated_on: z.string() }),
  comment: z.object({ deleted: z.boolean().optional().catch(undefined) }).optional(),
  approval: z.unknown().optional(),
  changes_request: z.unknown().optional(),
});

const OF_STATE: ReadonlyMap<string | undefined, string> = new Map([
  ['MERGED', 'fulfilled'],
  ['DECLINED', 'rejected'],
]);

/**
 * Guesses the event key of a payload; only a header tells the key itself. An event that removes something looks like the one
 * that added it: for `unapproved` this answers `approved`, and both translate to the same.
 */
export function eventOf(payload: unknown): string | undefined {
  const told = readable(pullRequestPayload, payload);
  if (told) return `pullrequest:${changeOf(told)}`;
  if (typeof payload === 'object' && payload !== null && Object.hasOwn(payload, 'push')) return 'repo:push';
  return undefined;
}

function changeOf({ pullrequest, comment, ...extras }: z.infer<typeof pullRequestPayload>): string {
  if (comment) return comment.deleted === true ? 'comment_deleted' : 'comment_created';
  if (extras.approval !== undefined) return 'approved';
  if (extras.changes_request !== undefined) return 'changes_request_created';
  const { state, created_on, updated_on } = pullrequest;
  return OF_STATE.get(state) ?? (created_on === updated_on ? 'created' : 'updated');
}
