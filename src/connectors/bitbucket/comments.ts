import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { ItemReference } from '../../model/item.ts';
import { absent } from '../kit/fields.ts';
import type { Api } from './api.ts';
import { pathOf } from './fetch.ts';

const comment = z.object({
  id: z.int().positive(),
  deleted: absent(z.boolean()),
  content: absent(z.object({ raw: z.string() })),
});
const page = z.object({ values: z.array(comment), next: z.unknown().optional() });

const MOST_PAGES = 100;
const FIELDS = 'next,values.id,values.deleted,values.content.raw';

/** Posts a text once; the comment that carries the marker already is changed instead. */
export async function writeComment(
  api: Api,
  reference: ItemReference,
  { marker, text }: { readonly marker: string; readonly text: string },
  signal: AbortSignal,
): Promise<void> {
  const path = `${pathOf(reference)}/comments`;
  const raw = text.includes(marker) ? text : `${text}\n\n${marker}`;
  const present = await find(api, path, marker, signal);
  if (present?.content?.raw === raw) return;
  const [method, target] = present ? (['PUT', `${path}/${present.id}`] as const) : (['POST', path] as const);
  const answer = await api.write(method, target, { content: { raw } }, signal);
  if (answer.status === 400) throw api.refusal(answer, `${method} ${target}`);
}

async function find(api: Api, path: string, marker: string, signal: AbortSignal) {
  let query = `pagelen=100&fields=${FIELDS}`;
  for (let count = 0; count < MOST_PAGES; count++) {
    const read = page.safeParse(await api.read(path, { query, signal }));
    if (!read.success) throw new SyncError('answer_malformed', `GET ${path}: the answer is no list of comments`);
    const { values, next } = read.data;
    const found = values.find(({ deleted, content }) => deleted !== true && content?.raw.includes(marker));
    if (found || next === undefined) return found;
    query = api.nextQuery(next, path);
  }
  throw new SyncError('answer_malformed', `GET ${path}: the list does not end`);
}
