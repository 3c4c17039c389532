import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Connection } from '../connector.ts';
import { parseAnswer, readAnswer, readable } from '../kit/json.ts';
import type { Api } from './api.ts';
import { placeOfItem } from './fetch.ts';

type Comment = Parameters<NonNullable<Connection['comment']>>[1];

const note = z.object({
  id: z.int().positive(),
  body: z.string(),
  system: z.boolean().catch(false),
  author: z.object({ id: z.int() }).nullish().catch(undefined),
});
type Note = z.infer<typeof note>;

/** Puts the text where our own note with this marker stands, and writes one where there is none. */
export async function writeComment(
  api: Api,
  reference: ItemReference,
  { marker, text }: Comment,
  signal: AbortSignal,
): Promise<undefined> {
  const path = `${placeOfItem(reference).path}/notes`;
  const body = text.includes(marker) ? text : `${text}\n\n${marker}`;
  const present = await findNote(api, path, marker, signal);
  if (present === undefined) await api.send('POST', path, { body: { body }, signal });
  else if (present.body !== body) await api.send('PUT', `${path}/${present.id}`, { body: { body }, signal });
}

/** Anybody may write the marker: only a note of this credential's own user counts. */
async function findNote(api: Api, path: string, marker: string, signal: AbortSignal): Promise<Note | undefined> {
  const query = 'order_by=created_at&sort=asc';
  const found = (await api.list(path, { query, signal })).flatMap((each) => readable(note, each) ?? []);
  const candidates = found.filter(({ system, body }) => !system && body.includes(marker));
  if (candidates.length === 0) return undefined;
  const own = await ownUser(api, signal);
  return candidates.find(({ author }) => author?.id === own);
}

async function ownUser(api: Api, signal: AbortSignal): Promise<number> {
  const answer = await api.get('/user', { signal });
  return parseAnswer(z.object({ id: z.int() }), readAnswer(answer, 'GET /user'), 'GET /user').id;
}

/** Closes an issue. Merge requests are closed by people, and by merging. */
export async function closeIssue(api: Api, reference: ItemReference, signal: AbortSignal): Promise<void> {
  const { list, path } = placeOfItem(reference);
  if (list !== 'issues')
    throw new SyncError('refused', `${reference.key}: worksync closes no merge requests`, {
      errorCode: 'unsupported_field',
    });
  if ((await stateOf(api, path, signal)) === 'closed') return;
  try {
    await api.send('PUT', path, { body: { state_event: 'close' }, signal });
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'outcome_unknown' || (await stateOf(api, path, signal)) !== 'closed') throw error;
  }
}

async function stateOf(api: Api, path: string, signal: AbortSignal): Promise<string> {
  const what = `GET ${path}`;
  return parseAnswer(z.object({ state: z.string() }), readAnswer(await api.get(path, { signal }), what), what).state;
}
