import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { readAnswer, writeJson } from '../kit/json.ts';
import type { Api } from './api.ts';
import { REPOSITORY } from './options.ts';
import { slim } from './schema.ts';
import { SHAPES } from './translate.ts';

const locator = z.object({
  repoId: z.string().regex(/^\d{1,16}$/),
  repository: z.string().regex(REPOSITORY),
  number: z.string().regex(/^\d{1,16}$/),
});
type Locator = z.infer<typeof locator>;

/**
 * Gets one pull request. By name first, as documented; by the repository's id where another repository has that name
 * now. It is called gone only where its repository can be read: a lost right also looks like 404.
 */
export async function fetchPull(
  api: Api,
  clock: Clock,
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const wanted = readLocator(reference);
  const named = `/repos/${wanted.repository}`;
  try {
    const pull = await getPull(api, named, wanted, signal);
    return repositoryId(pull) === wanted.repoId
      ? asFetched(pull)
      : asFetched(await getPull(api, `/repositories/${wanted.repoId}`, wanted, signal));
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found') throw error;
    if (error.status === 410 || (await isReadable(api, wanted, signal))) return asGone(wanted, clock);
    throw error;
  }
}

function readLocator(reference: ItemReference): Locator {
  const result = locator.safeParse(reference.locator);
  if (result.success) return result.data;
  throw new SyncError('internal', `the reference to ${reference.key} cannot be fetched`);
}

async function getPull(api: Api, repository: string, { number }: Locator, signal: AbortSignal): Promise<unknown> {
  const path = `${repository}/pulls/${number}`;
  return readAnswer(await api.get(path, { signal }), `GET ${path}`);
}

const withRepository = z.object({ base: z.object({ repo: z.object({ id: z.int() }) }) });

function repositoryId(pull: unknown): string {
  const result = withRepository.safeParse(pull);
  if (result.success) return String(result.data.base.repo.id);
  throw new SyncError('answer_malformed', 'the pull request that was fetched names no repository');
}

async function isReadable(api: Api, { repository, repoId }: Locator, signal: AbortSignal): Promise<boolean> {
  const path = `/repos/${repository}`;
  const answer = await api.get(path, { signal });
  return String((readAnswer(answer, `GET ${path}`) as { id?: unknown } | null)?.id) === repoId;
}

function asFetched(pull: unknown): Fetched {
  return { event: SHAPES.pull, body: writeJson(slim(pull)) };
}

function asGone({ repoId, repository, number }: Locator, clock: Clock): Fetched {
  const body = {
    repository: { id: Number(repoId), full_name: repository },
    number: Number(number),
    seen_at: new Date(clock.now()).toISOString(),
  };
  return { event: SHAPES.gone, body: writeJson(body) };
}
