import { hash } from 'node:crypto';
import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import { plainComment, type StandingComment } from '../../model/comment.ts';
import type { ItemReference } from '../../model/item.ts';
import { absent } from '../kit/fields.ts';
import { readable } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import type { Api } from './api.ts';
import { locator } from './fetch.ts';
import { CLOSING, COMMENT, CREATE_COMMENT, SET_STATE, UPDATE_COMMENT } from './queries.ts';
import * as schema from './schema.ts';

const user = absent(z.object({ id: schema.id }).nullable());
const standing = z.object({
  comments: z.object({ nodes: z.array(z.object({ id: schema.id, body: z.string(), user })) }),
});
const commented = z.object({ comment: z.object({ user }) });

/**
 * Posts a comment, or updates it. Linear lets the writer choose a comment's id: it follows from the issue and the marker,
 * so the comment is found again without a trace in its text, and cannot be posted twice, whatever became of an answer.
 */
export async function comment(
  api: Api,
  reference: ItemReference,
  { marker, text }: { readonly marker: string; readonly text: string },
  signal: AbortSignal,
): Promise<StandingComment | undefined> {
  const { issueId } = readLocator(locator, reference);
  const id = idOf(`${issueId} ${marker}`);
  const { data } = await api.ask({ document: COMMENT, variables: { id }, data: standing, use: 'fetch', signal });
  const [found] = data.comments.nodes;
  const author = found?.body === text ? found.user : await write();
  return author ? { id, author: author.id, text: plainComment(text) } : undefined;

  async function write() {
    const changed = found
      ? await api.change(UPDATE_COMMENT, { id, body: text }, signal)
      : await api.change(CREATE_COMMENT, { input: { id, issueId, body: text } }, signal);
    return Object.values(changed).map((each) => readable(commented, each)?.comment.user)[0];
  }
}

/** A UUID of version 4, as Linear wants it, whose chance is a hash. */
function idOf(text: string): string {
  const hex = hash('sha256', text, 'hex');
  const variant = '89ab'[Number.parseInt(hex.charAt(16), 16) % 4];
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

const closing = z.object({
  issues: z.object({
    nodes: z.array(
      z.object({
        state: z.object({ type: z.string() }),
        team: z.object({
          states: z.object({ nodes: z.array(z.object({ id: schema.id, name: z.string(), position: z.number() })) }),
        }),
      }),
    ),
  }),
});

/** Moves the issue to a completed state of its team; one that is done, in whatever way, is left as it is. */
export async function close(
  api: Api,
  reference: ItemReference,
  doneStatus: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { issueId } = readLocator(locator, reference);
  const { data } = await api.ask({ document: CLOSING, variables: { issueId }, data: closing, use: 'fetch', signal });
  const [issue] = data.issues.nodes;
  if (!issue) throw new SyncError('not_found', `${reference.key} cannot be closed: it cannot be seen`);
  if (['completed', 'canceled', 'duplicate'].includes(issue.state.type)) return;
  const states = issue.team.states.nodes.toSorted((left, right) => left.position - right.position);
  const chosen = states.find(({ name }) => doneStatus === undefined || name.toLowerCase() === doneStatus.toLowerCase());
  if (!chosen)
    throw new SyncError('conflict', `${reference.key} cannot be closed: its team has no such completed status`, {
      hint: 'Set doneStatus to the name of a status of the type Completed that each team has, or leave it out.',
    });
  await api.change(SET_STATE, { issueId, stateId: chosen.id }, signal);
}
