import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import { parseAnswer, readAnswer } from '../kit/json.ts';
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
    const query = new URLSearchParams({ username: name }).toString();
    const answer = await api.get('/users', { query, signal });
    const users = parseAnswer(found, readAnswer(answer, 'GET /users'), 'GET /users');
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
        if (id === undefined)
          throw new SyncError('refused', `${field}: GitLab knows nobody called "${name}"`, {
            errorCode: 'validation_failed',
            status: 422,
          });
        ids.push(id);
      }
      return ids;
    },
  };
}
