import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Connection } from '../connector.ts';
import { parseAnswer, readable } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import { wordsOfMarker } from '../kit/marker.ts';
import type { Api } from './api.ts';
import { locator, pathOf } from './fetch.ts';
import type { Options } from './options.ts';

type Comment = Parameters<NonNullable<Connection['comment']>>[1];

const note = z.object({ id: z.union([z.string().regex(/^\d{1,20}$/), z.int()]), data: z.object({ text: z.string() }) });

/** Posts a comment, or updates the one that carries the words of the marker in its last line. */
export async function comment(
  api: Api,
  options: Options,
  reference: ItemReference,
  { marker, text }: Comment,
  signal: AbortSignal,
): Promise<undefined> {
  const path = `${pathOf(options, readLocator(locator, reference).id)}comments/`;
  const words = wordsOfMarker(marker);
  const whole = `${text}\n\n${words}`;
  const standing = await findNotes(api, path, words, signal);
  for (const { id, data } of standing) {
    if (data.text.trim() === whole || (await isEdited(api, `${path}${id}/`, whole, signal))) return undefined;
  }
  await api.send('POST', path, { text: whole }, signal);
}

async function findNotes(api: Api, path: string, words: string, signal: AbortSignal) {
  const all: z.infer<typeof note>[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await api.page(path, {}, cursor, signal);
    const notes = page.found.flatMap((each) => readable(note, each) ?? []);
    all.push(...notes.filter(({ data }) => data.text.includes(words)));
    if (page.next === undefined) return all;
    cursor = page.next;
  }
}

/** Sentry lets nobody edit what another one wrote, and says so: a quotation of ours is passed over. */
async function isEdited(api: Api, path: string, text: string, signal: AbortSignal): Promise<boolean> {
  try {
    await api.send('PUT', path, { text }, signal);
    return true;
  } catch (thrown) {
    const { status } = asSyncError(thrown);
    if (status === 403 || status === 404) return false;
    throw thrown;
  }
}

/** Resolves the issue; one that is resolved or archived is left as it is. */
export async function close(api: Api, options: Options, reference: ItemReference, signal: AbortSignal): Promise<void> {
  const path = pathOf(options, readLocator(locator, reference).id);
  const data = parseAnswer(z.object({ status: z.string() }), (await api.get(path, signal)).content, `GET ${path}`);
  if (data.status === 'unresolved') await api.send('PUT', path, { status: 'resolved' }, signal);
}
