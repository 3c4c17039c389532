import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { readAnswer, writeJson } from '../kit/json.ts';
import type { Api } from './api.ts';
import { REPOSITORY } from './options.ts';
import { FIELDS_OF_ONE, uuid } from './schema.ts';
import { SHAPES } from './translate.ts';

const locator = z.object({
  repoId: uuid,
  repository: z.string().regex(REPOSITORY),
  number: z.string().regex(/^\d{1,16}$/),
});
type Locator = z.infer<typeof locator>;

/**
 * Gets one pull request, by the repository's id within its workspace: a new name does not hide it, and another
 * repository under the old name is not taken for it. It is called gone only where its repository can be read: a lost
 * right also looks like 404.
 */
export async function fetchPull(
  api: Api,
  clock: Clock,
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const wanted = readLocator(reference);
  const path = `${repositoryPath(wanted)}/pullrequests/${wanted.number}`;
  try {
    const answer = await api.get(path, `fields=${FIELDS_OF_ONE}`, signal);
    return asFetched(SHAPES.pull, ofRepository(readAnswer(answer, `GET ${path}`), wanted));
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found' || !(await isReadable(api, wanted, signal))) throw error;
    return asFetched(SHAPES.gone, goneAt(wanted, clock.now()));
  }
}

function readLocator(reference: ItemReference): Locator {
  const result = locator.safeParse(reference.locator);
  if (result.success) return result.data;
  throw new SyncError('internal', `the reference to ${reference.key} cannot be fetched`);
}

function repositoryPath({ repository, repoId }: Locator): string {
  return `/repositories/${repository.split('/', 1)[0]}/${encodeURIComponent(repoId)}`;
}

const withRepository = z.object({ destination: z.object({ repository: z.object({ uuid: z.string() }) }) });

/** What was asked for by its id must say the same id. */
function ofRepository(pull: unknown, { repoId }: Locator): unknown {
  const said = withRepository.safeParse(pull).data?.destination.repository.uuid;
  if (said === repoId) return pull;
  throw new SyncError(
    'answer_malformed',
    'the pull request that was fetched belongs to another repository, or to none',
  );
}

async function isReadable(api: Api, wanted: Locator, signal: AbortSignal): Promise<boolean> {
  const path = repositoryPath(wanted);
  const answer = await api.get(path, 'fields=uuid', signal);
  return (readAnswer(answer, `GET ${path}`) as { uuid?: unknown } | null)?.uuid === wanted.repoId;
}

function asFetched(event: string, content: unknown): Fetched {
  return { event, body: writeJson(content) };
}

function goneAt({ repoId, repository, number }: Locator, now: number): object {
  return {
    repository: { uuid: repoId, full_name: repository },
    id: Number(number),
    seen_at: new Date(now).toISOString(),
  };
}
