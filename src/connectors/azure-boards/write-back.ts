import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import { plainComment, type StandingComment } from '../../model/comment.ts';
import type { ItemReference } from '../../model/item.ts';
import { absent } from '../kit/fields.ts';
import { parseAnswer, readable } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import { wordsOfMarker } from '../kit/marker.ts';
import { type Api, malformed } from './api.ts';
import { whoAmI } from './check.ts';
import { categoryOf } from './enrich.ts';
import { heldLocator, locator } from './fetch.ts';
import { htmlOfText, textOfHtml } from './html.ts';
import type { Directory } from './projects.ts';
import * as schema from './schema.ts';

const PREVIEW = { 'api-version': '7.1-preview.4' };

/**
 * Posts a comment, or updates the one of this credential that carries the marker. Azure takes comments out of HTML, so
 * the words of the marker are the comment's last line.
 */
export async function comment(
  api: Api,
  reference: ItemReference,
  given: { readonly marker: string; readonly text: string },
  signal: AbortSignal,
): Promise<StandingComment | undefined> {
  const { id, projectId } = readLocator(heldLocator, reference);
  const path = `/${projectId}/_apis/wit/workItems/${id}/comments`;
  const words = wordsOfMarker(given.marker);
  const text = htmlOfText(`${given.text}\n\n${words}`);
  const standing = await findOwn(api, path, words, signal);
  if (!standing)
    return asStanding(await api.send({ method: 'POST', path, query: PREVIEW, body: { text } }, signal), text);
  if (textOfHtml(standing.text) === textOfHtml(text)) return asStanding(standing, text);
  const edit = { method: 'PATCH', path: `${path}/${standing.id}`, query: PREVIEW, body: { text } } as const;
  return asStanding(await api.send(edit, signal), text);
}

/** Without its id, which webhooks do not tell. */
function asStanding(answer: unknown, html: string): StandingComment | undefined {
  const author = readable(commented, answer)?.createdBy?.id;
  return author === undefined ? undefined : { author, text: plainComment(textOfHtml(html)) };
}

const commented = z.object({ createdBy: absent(z.object({ id: z.string() })) });

const page = z.object({
  comments: z.array(
    z.object({
      id: z.int().positive(),
      text: z.string().catch(''),
      createdBy: absent(z.object({ id: z.string() })),
    }),
  ),
  continuationToken: z.string().optional(),
});

type Standing = z.infer<typeof page>['comments'][number];

/** Somebody else may quote it: only a comment of this credential is ours. */
async function findOwn(api: Api, path: string, words: string, signal: AbortSignal): Promise<Standing | undefined> {
  let me: string | undefined;
  let token: string | undefined;
  do {
    const query = { ...PREVIEW, $top: '200', ...(token === undefined ? {} : { continuationToken: token }) };
    const data = parseAnswer(page, (await api.get(path, query, signal)).content, `GET ${path}`);
    for (const each of data.comments) {
      if (!textOfHtml(each.text).includes(words)) continue;
      me ??= (await whoAmI(api, signal))?.authenticatedUser.id;
      if (me !== undefined && each.createdBy?.id === me) return each;
    }
    if (data.continuationToken !== undefined && data.continuationToken === token)
      throw malformed(`GET ${path}: a page names itself as the next one`);
    token = data.continuationToken;
  } while (token !== undefined);
  return undefined;
}

const current = z.object({
  rev: z.int().positive(),
  fields: z.object({ 'System.WorkItemType': z.string().min(1), 'System.TeamProject': z.string().min(1) }),
});

/**
 * Sets a state that counts as completed; a work item that is done is left as it is. The change is refused where somebody
 * else was faster, and is then tried on what they made of it.
 */
export async function close(
  api: Api,
  directory: Directory,
  reference: ItemReference,
  doneStatus: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const path = `/_apis/wit/workitems/${readLocator(locator, reference).id}`;
  const { content } = await api.get(path, { fields: schema.FIELDS }, signal);
  const data = parseAnswer(current, content, `GET ${path}`);
  const project = await directory.project(data.fields['System.TeamProject'], signal);
  const category = await categoryOf(content, project, directory, signal);
  if (category === 'Completed' || category === 'Removed') return;
  const states = await directory.states(project.id, data.fields['System.WorkItemType'], signal);
  const completed = states.filter((state) => state.category === 'Completed');
  const chosen = completed.find(
    ({ name }) => doneStatus === undefined || name.toLowerCase() === doneStatus.toLowerCase(),
  );
  if (!chosen)
    throw new SyncError('conflict', `${reference.key} cannot be closed: its type has no such completed state`, {
      hint: 'Set doneStatus to a state of the category Completed that each type has, or leave it out.',
    });
  const body = [
    { op: 'test', path: '/rev', value: data.rev },
    { op: 'add', path: '/fields/System.State', value: chosen.name },
  ];
  await api.send({ method: 'PATCH', path, body }, signal);
}
