import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Shape } from '../../lib/shape.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { type Asking, fitting, isNewHead, messageText, readMessages, withMessages } from '../kit/commits.ts';
import { parseAnswer, readAnswer, readable, readList, writeJson } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import type { Api } from './api.ts';
import { REPOSITORY } from './options.ts';
import { KEPT, KEPT_OF_ISSUE, slim, slimIssue } from './schema.ts';
import { SHAPES } from './translate.ts';

const number = z.string().regex(/^\d{1,16}$/);
const locator = z.object({ repoId: number, repository: z.string().regex(REPOSITORY), number });
const issueLocator = locator.extend({ id: number });
type Locator = z.infer<typeof locator>;
type IssueLocator = z.infer<typeof issueLocator>;

export async function fetchItem(ask: Ask, reference: ItemReference): Promise<Fetched> {
  return reference.kind === 'pull_request'
    ? fetchPull(ask, readLocator(locator, reference))
    : fetchIssue(ask, readLocator(issueLocator, reference));
}

type Ask = Asking<Api>;

/**
 * Gets one pull request. By name first, as documented; by the repository's id where another repository has that name
 * now. It is called gone only where its repository can be read: a lost right also looks like 404.
 */
async function fetchPull(ask: Ask, wanted: Locator): Promise<Fetched> {
  const byName = `/repos/${wanted.repository}/pulls/${wanted.number}`;
  const byId = `/repositories/${wanted.repoId}/pulls/${wanted.number}`;
  try {
    const named = await get(ask, byName, KEPT);
    const [path, pull] = repositoryId(named) === wanted.repoId ? [byName, named] : [byId, await get(ask, byId, KEPT)];
    const messages = ask.commits && isNewHead(headOf(pull), ask) ? await messagesOf(ask, `${path}/commits`) : undefined;
    return { event: SHAPES.pull, body: writeJson(withMessages(slim(pull), messages)) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found') throw error;
    if (error.status !== 410 && !(await isReadable(ask, wanted))) throw error;
    return { event: SHAPES.gone, body: writeJson({ ...placeOf(wanted), seen_at: now(ask) }) };
  }
}

const message = z.object({ commit: z.object({ message: messageText }) }).transform(({ commit }) => commit.message);

/** What is kept of a page of commits. */
const COMMITS: Shape = { commit: { message: true } };

/** GitHub lists the oldest first. */
async function messagesOf(ask: Ask, path: string): Promise<readonly string[] | undefined> {
  const messages = await readMessages(commitPages(ask, path), message);
  return messages && fitting(messages.toReversed());
}

async function* commitPages({ api, signal }: Ask, path: string): AsyncGenerator<readonly unknown[]> {
  for (let query: string | undefined = 'per_page=100'; query !== undefined; ) {
    const answer = await api.get(path, { query, signal, keep: COMMITS });
    yield readList(answer, `GET ${path}`);
    query = api.nextQuery(answer, path);
  }
}

/**
 * Gets one issue, by the id that is its own: a number may belong to another one, where the repository's name went to
 * another repository. What was deleted answers 410, or 404; what was transferred leads elsewhere, and is another issue
 * there.
 */
async function fetchIssue(ask: Ask, wanted: IssueLocator): Promise<Fetched> {
  try {
    for (const repository of [`/repos/${wanted.repository}`, `/repositories/${wanted.repoId}`]) {
      const issue = await get(ask, `${repository}/issues/${wanted.number}`, ONE_ISSUE);
      if (idOf(issue) === wanted.id) return asIssue(wanted, issue);
    }
    return goneIssue(ask, wanted);
  } catch (thrown) {
    const error = asSyncError(thrown);
    const isGone = error.status === 410 || (error.status !== undefined && error.status >= 300 && error.status <= 399);
    if (isGone || (error.code === 'not_found' && (await isReadable(ask, wanted)))) return goneIssue(ask, wanted);
    throw error;
  }
}

/** It names its repository by an address. */
const ONE_ISSUE: Shape = { ...KEPT_OF_ISSUE, repository_url: true };

async function get({ api, signal }: Ask, path: string, keep: Shape): Promise<unknown> {
  return readAnswer(await api.get(path, { signal, keep }), `GET ${path}`);
}

const withHead = z.object({ head: z.object({ sha: z.string() }) });

function headOf(pull: unknown): string | undefined {
  return readable(withHead, pull)?.head.sha;
}

const withRepository = z.object({ base: z.object({ repo: z.object({ id: z.int() }) }) });

function repositoryId(pull: unknown): string {
  return String(parseAnswer(withRepository, pull, 'the pull request that was fetched').base.repo.id);
}

function idOf(thing: unknown): string {
  return String((thing as { id?: unknown } | null)?.id);
}

async function isReadable(ask: Ask, { repository, repoId }: Locator): Promise<boolean> {
  return idOf(await get(ask, `/repos/${repository}`, { id: true })) === repoId;
}

/** An issue names its repository by an address alone; the name in it is the present one. */
function asIssue(wanted: IssueLocator, issue: unknown): Fetched {
  const address = (issue as { repository_url?: unknown }).repository_url;
  const name = typeof address === 'string' ? address.split('/').slice(-2).join('/') : '';
  const repository = REPOSITORY.test(name) ? name : wanted.repository;
  const body = { repository: { id: Number(wanted.repoId), full_name: repository }, issue: slimIssue(issue) };
  return { event: SHAPES.issue, body: writeJson(body) };
}

function goneIssue(ask: Ask, wanted: IssueLocator): Fetched {
  return {
    event: SHAPES.goneIssue,
    body: writeJson({ ...placeOf(wanted), id: Number(wanted.id), seen_at: now(ask) }),
  };
}

function placeOf({ repoId, repository, number }: Locator) {
  return { repository: { id: Number(repoId), full_name: repository }, number: Number(number) };
}

function now({ clock }: Ask): string {
  return new Date(clock.now()).toISOString();
}
