import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { fitting, isNewHead, messageText, readMessages, withMessages } from '../kit/commits.ts';
import { readable, writeJson } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import type { Api } from './api.ts';
import { REPOSITORY } from './options.ts';
import { readPage } from './pages.ts';
import { repositoryPath } from './repositories.ts';
import { FIELDS_OF_ONE, uuid } from './schema.ts';
import { SHAPES } from './translate.ts';

const locator = z.object({
  repoId: uuid,
  repository: z.string().regex(REPOSITORY),
  number: z.string().regex(/^\d{1,16}$/),
});
type Locator = z.infer<typeof locator>;

interface Ask {
  readonly api: Api;
  readonly clock: Clock;
  /** Whether a pull request comes with the messages of its commits. */
  readonly commits: boolean;
  /** The head whose commits are known. */
  readonly commitsSha?: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Gets one pull request, by the repository's id: a new name does not hide it, and another repository under the old name is
 * not taken for it. Where it is not found, the repository tells whether it went to another workspace; the pull request is
 * called gone only where the repository can be read: a lost right also looks like 404.
 */
export async function fetchPull(ask: Ask, reference: ItemReference): Promise<Fetched> {
  const { api, clock, signal } = ask;
  const wanted = readLocator(locator, reference);
  try {
    return await fetchFrom(ask, workspaceOf(wanted.repository), wanted);
  } catch (thrown) {
    const error = asSyncError(thrown);
    const name = error.code === 'not_found' ? await presentName(api, wanted, signal) : undefined;
    if (name === undefined) throw error;
    if (workspaceOf(name) !== workspaceOf(wanted.repository)) return fetchFrom(ask, workspaceOf(name), wanted);
    return { event: SHAPES.gone, body: writeJson(goneAt(wanted, clock.now())) };
  }
}

async function fetchFrom(ask: Ask, workspace: string, wanted: Locator): Promise<Fetched> {
  const path = pullPath(workspace, wanted);
  const read = await ask.api.read(path, { query: `fields=${FIELDS_OF_ONE}`, keep: true, signal: ask.signal });
  const pull = ofRepository(read, wanted);
  const head = readable(withHead, pull)?.source.commit.hash;
  const messages = ask.commits && isNewHead(head, ask) ? await messagesOf(ask, `${path}/commits`) : undefined;
  return { event: SHAPES.pull, body: writeJson(withMessages(pull, messages)) };
}

const withHead = z.object({ source: z.object({ commit: z.object({ hash: z.string() }) }) });

const message = z.object({ message: messageText }).transform((commit) => commit.message);

/** Bitbucket lists the newest first. */
async function messagesOf(ask: Ask, path: string): Promise<readonly string[] | undefined> {
  const messages = await readMessages(commitPages(ask, path), message);
  return messages && fitting(messages);
}

async function* commitPages({ api, signal }: Ask, path: string): AsyncGenerator<readonly unknown[]> {
  for (let query: string | undefined = 'pagelen=100&fields=next,values.message'; query !== undefined; ) {
    const { values, next } = readPage(await api.get(path, { query, signal, keep: true }), path);
    yield values;
    query = next === undefined ? undefined : api.nextQuery(next, path);
  }
}

/** The path of a pull request, for what is written on it. */
export function pathOf(reference: ItemReference): string {
  const wanted = readLocator(locator, reference);
  return pullPath(workspaceOf(wanted.repository), wanted);
}

function pullPath(workspace: string, { repoId, number }: Locator): string {
  return `${repositoryPath(`${workspace}/${repoId}`)}/pullrequests/${number}`;
}

function workspaceOf(name: string): string {
  return (name.split('/', 1)[0] as string).toLowerCase();
}

const withRepository = z.object({ destination: z.object({ repository: z.object({ uuid: z.string() }) }) });

/** What was asked for by its id must say the same id. */
function ofRepository(pull: unknown, { repoId }: Locator): unknown {
  const said = readable(withRepository, pull)?.destination.repository.uuid;
  if (said === repoId) return pull;
  throw new SyncError(
    'answer_malformed',
    'the pull request that was fetched belongs to another repository, or to none',
  );
}

const withName = z.object({ uuid: z.string(), full_name: z.string().regex(REPOSITORY) });

/** What the repository is called now. The empty braces stand for the workspace, which a repository's id does not need. */
async function presentName(api: Api, { repoId }: Locator, signal: AbortSignal): Promise<string | undefined> {
  const path = repositoryPath(`{}/${repoId}`);
  const told = readable(withName, await api.read(path, { query: 'fields=uuid,full_name', signal }));
  return told?.uuid === repoId ? told.full_name : undefined;
}

function goneAt({ repoId, repository, number }: Locator, now: number): object {
  return {
    repository: { uuid: repoId, full_name: repository },
    id: Number(number),
    seen_at: new Date(now).toISOString(),
  };
}
