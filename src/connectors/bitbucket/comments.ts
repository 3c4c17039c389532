import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { Connection } from '../connector.ts';
import { absent } from '../kit/fields.ts';
import { parseAnswer, readable } from '../kit/json.ts';
import type { Api } from './api.ts';
import { pathOf } from './fetch.ts';
import { uuid } from './schema.ts';

const comment = z.object({
  id: z.int().positive(),
  deleted: absent(z.boolean()),
  content: absent(z.object({ raw: z.string() })),
  user: absent(z.object({ uuid }).nullable()),
});
type Comment = z.infer<typeof comment>;
const page = z.object({ values: z.array(comment), next: z.unknown().optional() });

const MOST_PAGES = 100;
const FIELDS = 'next,values.id,values.deleted,values.content.raw,values.user.uuid';

/** Posts a text once; the comment of ours that carries the marker already is changed instead. */
export function createComment(api: Api): NonNullable<Connection['comment']> {
  const author = createAuthor(api);
  return async (reference, { marker, text }, signal) => {
    const path = `${pathOf(reference)}/comments`;
    const raw = text.includes(marker) ? text : `${text}\n\n${marker}`;
    const isOurs = await author(signal);
    const holds = (each: Comment) => each.deleted !== true && each.content?.raw.includes(marker) && isOurs(each);
    const present = await find(api, path, holds, signal);
    if (present?.content?.raw === raw) return;
    const [method, target] = present ? (['PUT', `${path}/${present.id}`] as const) : (['POST', path] as const);
    const answer = await api.write(method, target, { content: { raw } }, signal);
    if (answer.status === 400) throw api.refusal(answer, `${method} ${target}`);
  };
}

async function find(
  api: Api,
  path: string,
  isWanted: (each: Comment) => boolean | undefined,
  signal: AbortSignal,
): Promise<Comment | undefined> {
  let query = `pagelen=100&fields=${FIELDS}`;
  for (let count = 0; count < MOST_PAGES; count++) {
    const { values, next } = parseAnswer(page, await api.read(path, { query, signal }), `GET ${path}`);
    const found = values.find(isWanted);
    if (found || next === undefined) return found;
    query = api.nextQuery(next, path);
  }
  throw new SyncError('answer_malformed', `GET ${path}: the list does not end`);
}

/**
 * Tells our comments from those of people, who may quote one of ours with its marker. Asked once. Who a token belongs to
 * is told to those with a further right only: without it the marker alone must do.
 */
function createAuthor(api: Api): (signal: AbortSignal) => Promise<(each: Comment) => boolean> {
  let known: ((each: Comment) => boolean) | undefined;
  return async (signal) => {
    known ??= isOf(await whoAmI(api, signal));
    return known;
  };
}

function isOf(own: string | undefined): (each: Comment) => boolean {
  return own === undefined ? () => true : ({ user }) => user?.uuid === own;
}

async function whoAmI(api: Api, signal: AbortSignal): Promise<string | undefined> {
  try {
    return readable(z.object({ uuid }), await api.read('/user', { query: 'fields=uuid', signal }))?.uuid;
  } catch (thrown) {
    if (['forbidden', 'unauthorized', 'not_found'].includes(asSyncError(thrown).code)) return undefined;
    throw thrown;
  }
}
