import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { type Asking, fitting, isNewHead, messageText, readMessages, withMessages } from '../kit/commits.ts';
import { readAnswer, readable, writeJson } from '../kit/json.ts';
import { unjudged } from '../kit/outcome.ts';
import type { Api } from './api.ts';
import { KEPT, slim } from './schema.ts';
import { SHAPES } from './translate.ts';
import type { ListName } from './units.ts';

const number = z.string().regex(/^[1-9]\d{0,15}$/);
const locator = z.strictObject({
  projectId: number,
  iid: number,
  id: number.optional(),
  isFollowed: unjudged,
});

/** Where an item is found, by numbers that survive renaming and transfer. */
export interface ItemPlace {
  readonly list: ListName;
  readonly projectId: string;
  readonly iid: string;
  /** Of issues. */
  readonly id?: string | undefined;
  /** A webhook did not tell whether its project is followed. */
  readonly isFollowed?: 'unknown' | undefined;
  /** Path of the item in the API. */
  readonly path: string;
}

export function placeOfItem(reference: ItemReference): ItemPlace {
  const data = readable(locator, reference.locator);
  const list = reference.kind === 'work_item' ? 'issues' : 'merge_requests';
  if (!data || (list === 'issues' && data.id === undefined))
    throw new SyncError('internal', `the reference to ${reference.key} cannot be fetched`);
  return { list, ...data, path: `/projects/${data.projectId}/${list}/${data.iid}` };
}

type Ask = Asking<Api>;

/**
 * Gets one merge request or issue. It is called gone only where the project's list can be read without it: a lost right
 * also looks like 404.
 */
export async function fetchItem(
  { api, clock, commits, commitsSha, signal }: Ask,
  reference: ItemReference,
): Promise<Fetched> {
  const place = placeOfItem(reference);
  const { list, path } = place;
  try {
    const found = readAnswer(await api.get(path, { keep: KEPT, signal }), `GET ${path}`);
    const isWanted = commits && list === 'merge_requests' && isNewHead(readable(withHead, found)?.sha, { commitsSha });
    const messages = isWanted ? await messagesOf(api, `${path}/commits`, signal) : undefined;
    const event = place.isFollowed ? SHAPES[list].judged : SHAPES[list].one;
    return { event, body: writeJson(withMessages(slim(found), messages)) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code === 'not_found' && (await isMissing(api, place, signal))) return asGone(place, clock);
    throw error;
  }
}

const withHead = z.object({ sha: z.string() });

const message = z.object({ message: messageText }).transform((commit) => commit.message);

/** GitLab lists the newest first. */
async function messagesOf(api: Api, path: string, signal: AbortSignal): Promise<readonly string[] | undefined> {
  const messages = await readMessages(api.pages(path, { signal, keep: { message: true } }), message);
  return messages && fitting(messages);
}

/** Whether the list says so; throws `not_found` or `forbidden` where it cannot be read. */
async function isMissing(api: Api, { list, projectId, iid }: ItemPlace, signal: AbortSignal): Promise<boolean> {
  const path = `/projects/${projectId}/${list}`;
  const answer = await api.get(path, { query: `state=all&scope=all&iids[]=${iid}`, signal });
  const found = readAnswer(answer, `GET ${path}`);
  return Array.isArray(found) && found.length === 0;
}

function asGone({ list, projectId, iid, id, isFollowed }: ItemPlace, clock: Clock): Fetched {
  if (isFollowed) return { event: SHAPES[list].missing, body: writeJson({}) };
  const body = {
    ...(id === undefined ? {} : { id: Number(id) }),
    project_id: Number(projectId),
    iid: Number(iid),
    seen_at: new Date(clock.now()).toISOString(),
  };
  return { event: SHAPES[list].gone, body: writeJson(body) };
}
