import { z } from 'zod';
import { refused } from '../kit/git-writes.ts';
import type { Api } from './api.ts';

const found = z.array(z.object({ id: z.int().positive(), username: z.string() }));

/**
 * Turns usernames into numbers, by which GitLab names people in writes. Asks for each name once. Throws `refused`, with
 * `validation_failed`, for a name that nobody has.
 */
export function createIdsOf(api: Api, signal: AbortSignal) {
  const known = new Map<string, Promise<number | undefined>>();
  const ask = async (name: string): Promise<number | undefined> => {
    const users = await api.read(found, '/users', {
      query: new URLSearchParams({ username: name }).toString(),
      signal,
    });
    return users.find(({ username }) => username.toLowerCase() === name)?.id;
  };
  const idOf = (name: string) => {
    const asked = known.get(name) ?? ask(name);
    known.set(name, asked);
    return asked;
  };
  return async (field: string, names: readonly string[] | undefined): Promise<readonly number[] | undefined> => {
    if (names === undefined) return undefined;
    const ids: number[] = [];
    for (const name of names) {
      const id = await idOf(name.toLowerCase());
      if (id === undefined) throw refused('validation_failed', `${field}: GitLab knows nobody called "${name}"`);
      ids.push(id);
    }
    return ids;
  };
}
