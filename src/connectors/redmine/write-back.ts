import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import { plainComment, type StandingComment } from '../../model/comment.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Connection } from '../connector.ts';
import { absent } from '../kit/fields.ts';
import { parseAnswer } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import { wordsOfMarker } from '../kit/marker.ts';
import type { Api } from './api.ts';
import { locator } from './fetch.ts';
import type { Options } from './options.ts';
import * as schema from './schema.ts';
import { readStatuses } from './statuses.ts';

type Comment = Parameters<NonNullable<Connection['comment']>>[1];

/**
 * Adds a note, or updates the one of this user that carries the marker. Textile shows HTML comments to people, so there the
 * words of the marker are the note's last line; Markdown hides them.
 */
export function createComment(api: Api, { formatting }: Options): NonNullable<Connection['comment']> {
  let known: number | undefined;
  return async (reference, given, signal) => {
    known ??= await whoAmI(api, signal);
    return writeNote(api, { formatting, me: known }, reference, given, signal);
  };
}

async function writeNote(
  api: Api,
  { formatting, me }: Pick<Options, 'formatting'> & { readonly me: number },
  reference: ItemReference,
  { marker, text }: Comment,
  signal: AbortSignal,
): Promise<StandingComment> {
  const { issueId } = readLocator(locator, reference);
  const words = wordsOfMarker(marker);
  const notes = `${text}\n\n${formatting === 'markdown' ? marker : words}`;
  const standing = await findOwn(api, issueId, words, me, signal);
  if (!standing) await api.put(`/issues/${issueId}.json`, { issue: { notes } }, signal);
  else if (asTyped(standing.notes) !== asTyped(notes)) await update(api, standing.id, notes, signal);
  return { author: String(me), text: plainComment(notes) };
}

/** Redmine ends lines as forms do. */
function asTyped(text: string | undefined): string {
  return (text ?? '').replace(/\r\n?/g, '\n').trim();
}

const journal = z.object({
  id: schema.id,
  notes: absent(z.string()),
  user: absent(z.object({ id: z.int() })),
});
const withJournals = z.object({ issue: z.object({ journals: z.array(journal) }) });
const myself = z.object({ user: z.object({ id: z.int() }) });

/** Somebody else may quote it: only a note of this user is ours. */
async function findOwn(api: Api, issueId: string, words: string, me: number, signal: AbortSignal) {
  const path = `/issues/${issueId}.json`;
  const data = parseAnswer(withJournals, (await api.get(path, { include: 'journals' }, signal)).content, `GET ${path}`);
  return data.issue.journals.find(({ notes, user }) => notes?.includes(words) && user?.id === me);
}

async function whoAmI(api: Api, signal: AbortSignal): Promise<number> {
  const { content } = await api.get('/users/current.json', {}, signal);
  return parseAnswer(myself, content, 'GET /users/current.json').user.id;
}

/** Before version 5 notes cannot be edited through the API: there the first one stands, and no second is added. */
async function update(api: Api, journalId: number, notes: string, signal: AbortSignal): Promise<void> {
  try {
    await api.put(`/journals/${journalId}.json`, { journal: { notes } }, signal);
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found') throw error;
  }
}

const current = z.object({
  issue: z.object({ status: schema.status.partial({ name: true }), allowed_statuses: absent(z.array(schema.status)) }),
});

/**
 * Moves the issue to a closed status that the workflow allows. Redmine answers a move that it does not allow as if it were
 * done, and changes nothing: so it is looked at again.
 */
export async function close(
  api: Api,
  { doneStatus }: Options,
  reference: ItemReference,
  signal: AbortSignal,
): Promise<void> {
  const path = `/issues/${readLocator(locator, reference).issueId}.json`;
  const statuses = await readStatuses(api, signal);
  const { status, allowed_statuses: allowed = statuses } = await readStatus(api, path, signal);
  const isClosed = (id: number) => statuses.some((each) => each.id === id && each.is_closed);
  if (isClosed(status.id)) return;
  const chosen = allowed.find(
    ({ id, name }) => isClosed(id) && (doneStatus === undefined || name.toLowerCase() === doneStatus.toLowerCase()),
  );
  if (chosen) {
    await api.put(path, { issue: { status_id: chosen.id } }, signal);
    if (isClosed((await readStatus(api, path, signal)).status.id)) return;
  }
  const aim = doneStatus === undefined ? 'a closed status' : `the status ${doneStatus}`;
  throw new SyncError('conflict', `${reference.key} cannot be closed: its workflow does not lead to ${aim}`, {
    hint: "Let the workflow allow that change to the user's role, or set doneStatus to a status that it allows.",
  });
}

async function readStatus(api: Api, path: string, signal: AbortSignal) {
  const data = parseAnswer(
    current,
    (await api.get(path, { include: 'allowed_statuses' }, signal)).content,
    `GET ${path}`,
  );
  return data.issue;
}
