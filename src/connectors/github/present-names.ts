import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import { parseAnswer, readAnswer } from '../kit/json.ts';
import type { Api } from './api.ts';
import { REPOSITORY } from './options.ts';

interface Named {
  readonly repoId: string;
  /** What it was called when the item was seen. */
  readonly repository: string;
}

const repositoryAnswer = z.object({ id: z.int(), full_name: z.string().regex(REPOSITORY) });

/** So long a name is believed to lead where it led. A repository that is renamed leaves its name to whoever wants it. */
const BELIEVED = 5 * 60_000;

/**
 * Writes are not redirected, so the repository's present name is asked for: by the name that it had, as documented, which
 * leads on to the present one; by its id where another repository has that name now.
 */
export function createPresentNames(api: Api, clock: Clock) {
  const known = new Map<string, { readonly name: string; readonly until: number }>();

  async function ask(path: string, signal: AbortSignal) {
    return parseAnswer(repositoryAnswer, readAnswer(await api.get(path, { signal }), `GET ${path}`), `GET ${path}`);
  }

  async function nameOf({ repoId, repository }: Named, signal: AbortSignal): Promise<string> {
    const held = known.get(repoId);
    if (held && held.until > clock.monotonic()) return held.name;
    const named = await unlessAbsent(ask(`/repos/${repository}`, signal));
    const found = named && String(named.id) === repoId ? named : await ask(`/repositories/${repoId}`, signal);
    known.set(repoId, { name: found.full_name, until: clock.monotonic() + BELIEVED });
    return found.full_name;
  }

  return {
    /** Does something at the repository's address. Where that fails the name may be the reason: it is asked for anew. */
    async at<Result>(wanted: Named, signal: AbortSignal, work: (path: string) => Promise<Result>): Promise<Result> {
      const path = `/repos/${await nameOf(wanted, signal)}`;
      try {
        return await work(path);
      } catch (thrown) {
        known.delete(wanted.repoId);
        throw thrown;
      }
    },
  };
}

/** A name that is gone, or belongs to somebody who shows it to nobody. */
async function unlessAbsent<Answer>(asked: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await asked;
  } catch (thrown) {
    if (asSyncError(thrown).code !== 'not_found') throw thrown;
    return undefined;
  }
}
