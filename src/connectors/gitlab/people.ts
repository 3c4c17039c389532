import { z } from 'zod';
import { refused } from '../kit/git-writes.ts';
import type { Api } from './api.ts';

const found = z.array(z.object({ id: z.int().positive(), username: z.string() }));

/** Usernames as the numbers by which GitLab wants people named. */
export interface People {
  /** Throws `refused`, with `validation_failed`, for a name that nobody has. */
  idsOf(field: string, names: readonly string[] | undefined): Promise<readonly number[] | undefined>;
}

/** Each name is asked for once. */
export function createPeople(api: Api, signal: AbortSignal): People {
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
  return {
    async idsOf(field, names) {
      if (names === undefined) return undefined;
      const ids: number[] = [];
      for (const name of names) {
        const id = await idOf(name.toLowerCase());
        if (id === undefined) throw refused('validation_failed', `${field}: GitLab knows nobody called "${name}"`);
        ids.push(id);
      }
      return ids;
    },
  };
}
