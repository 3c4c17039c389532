import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import { plainComment, type StandingComment } from '../../model/comment.ts';
import type { ItemReference } from '../../model/item.ts';
import { absent } from '../kit/fields.ts';
import { parseAnswer, readable } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import { wordsOfMarker } from '../kit/marker.ts';
import { adfOfText, textOfAdf } from './adf.ts';
import type { Api } from './api.ts';
import { locator } from './fetch.ts';
import * as schema from './schema.ts';

interface Comment {
  readonly marker: string;
  readonly text: string;
}

/**
 * Posts a comment, or updates the one of this account that carries the marker. Jira's documents have no hidden text, so
 * the words of the marker are the comment's last line.
 */
export async function comment(
  api: Api,
  reference: ItemReference,
  given: Comment,
  signal: AbortSignal,
): Promise<StandingComment | undefined> {
  const { issueId } = readLocator(locator, reference);
  const path = `/rest/api/3/issue/${issueId}/comment`;
  const words = wordsOfMarker(given.marker);
  const text = `${given.text}\n\n${words}`;
  const body = adfOfText(text);
  const standing = await findOwn(api, path, words, signal);
  if (!standing) return asStanding(await api.send('POST', path, { body }, signal), text);
  if (textOfAdf(standing.body) === textOfAdf(body)) return asStanding(standing, text);
  return asStanding(await api.send('PUT', `${path}/${standing.id}?notifyUsers=false`, { body }, signal), text);
}

function asStanding(answer: unknown, text: string): StandingComment | undefined {
  const found = readable(commented, answer);
  const author = found?.updateAuthor ?? found?.author;
  return found && author ? { id: found.id, author: author.accountId, text: plainComment(text) } : undefined;
}

const account = absent(z.object({ accountId: z.string() }).nullable());
const commented = z.object({ id: schema.id, author: account, updateAuthor: account });

const page = z.object({
  comments: z.array(commented.extend({ body: z.unknown() })),
  total: z.int().min(0),
});

type Standing = z.infer<typeof page>['comments'][number];

/** Somebody else may quote it: only a comment of this account is ours. */
async function findOwn(api: Api, path: string, words: string, signal: AbortSignal): Promise<Standing | undefined> {
  let seen = 0;
  let me: string | undefined;
  for (;;) {
    const query = { startAt: String(seen), maxResults: '100', orderBy: '-created' };
    const data = parseAnswer(page, (await api.get(path, query, signal)).content, `GET ${path}`);
    for (const each of data.comments) {
      if (!textOfAdf(each.body).includes(words)) continue;
      me ??= await myAccount(api, signal);
      if (each.author?.accountId === me) return each;
    }
    seen += data.comments.length;
    if (data.comments.length === 0 || seen >= data.total) return undefined;
  }
}

async function myAccount(api: Api, signal: AbortSignal): Promise<string> {
  const { content } = await api.get('/rest/api/3/myself', {}, signal);
  const data = parseAnswer(z.object({ accountId: z.string() }), content, 'GET /rest/api/3/myself');
  return data.accountId;
}

const category = z.object({ statusCategory: z.object({ key: z.string() }) });
const current = z.object({ fields: z.object({ status: category }) });
const transitions = z.object({
  transitions: z.array(
    z.object({
      id: z.string().regex(/^\d{1,16}$/),
      to: category.extend({ name: z.string() }),
      hasScreen: absent(z.boolean()),
    }),
  ),
});

/** Moves the issue to a status that counts as done, as its workflow allows; one that is done is left as it is. */
export async function close(
  api: Api,
  reference: ItemReference,
  doneStatus: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const path = `/rest/api/3/issue/${readLocator(locator, reference).issueId}`;
  const issue = parseAnswer(current, (await api.get(path, { fields: 'status' }, signal)).content, `GET ${path}`);
  if (issue.fields.status.statusCategory.key === 'done') return;
  const data = parseAnswer(
    transitions,
    (await api.get(`${path}/transitions`, {}, signal)).content,
    `GET ${path}/transitions`,
  );
  const done = data.transitions.filter(({ to }) => to.statusCategory.key === 'done');
  const wanted = done.filter(
    ({ to }) => doneStatus === undefined || to.name.toLowerCase() === doneStatus.toLowerCase(),
  );
  // A transition with a screen may ask for fields that nobody fills in here.
  const chosen = wanted.find(({ hasScreen }) => hasScreen !== true) ?? wanted[0];
  if (!chosen)
    throw new SyncError('conflict', `${reference.key} cannot be closed: no transition leads ${aim(doneStatus)}`, {
      hint: 'Let the workflow lead from its present status to one that counts as done, or set doneStatus to one that it leads to.',
    });
  await api.send('POST', `${path}/transitions`, { transition: { id: chosen.id } }, signal);
}

function aim(doneStatus: string | undefined): string {
  return doneStatus === undefined ? 'to a status that counts as done' : `to the status ${doneStatus}`;
}
