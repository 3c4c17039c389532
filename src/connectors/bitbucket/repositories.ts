import { z } from 'zod';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Api } from '../kit/git-api.ts';
import { type Candidate, createScopeResolver, patternsOf } from '../kit/scope.ts';
import { type Options, REPOSITORY, scopeOf } from './options.ts';
import { repository, uuid } from './schema.ts';

export type Repositories = ReturnType<typeof createRepositories>;

export function repositoryPath(unit: string): string {
  return `/repositories/${unit.split('/').map(encodeURIComponent).join('/')}`;
}

/** `workspace/{uuid}`. The id alone would do, but Bitbucket documents only addresses with a workspace. */
export function unitOf({ id, name }: Pick<Candidate, 'id' | 'name'>): string {
  return `${name.split('/', 1)[0]}/${id}`;
}

const FIELDS = ['next', ...['uuid', 'full_name', 'parent.uuid'].map((field) => `values.${field}`)].join(',');
const one = z.object({ uuid, full_name: z.string().regex(REPOSITORY) });
const asCandidate = (given: z.infer<typeof one> & { parent?: unknown }): Candidate => {
  return { id: given.uuid, name: given.full_name, fork: Boolean(given.parent) };
};

/**
 * The units are `workspace/slug` if the configuration names a repository, `workspace/{uuid}` if a pattern matches it, so that its
 * stored state survives a new name.
 */
export function createRepositories(api: Api, options: Options, clock: Clock) {
  const scope = scopeOf(options);
  const workspaces = [...new Set(patternsOf(scope).map((pattern) => pattern.split('/', 1)[0] as string))];

  const query = new URLSearchParams({ pagelen: '100', sort: 'created_on', fields: FIELDS }).toString();
  /** Every repository of each workspace that the credential can see; all pages or none. */
  const lists = workspaces.map((workspace) => ({
    name: `${workspace}/*`,
    read: (signal: AbortSignal) => api.all(repository, `/repositories/${workspace}`, { query, signal, use: 'poll' }),
  }));

  return {
    ...createScopeResolver({ scope, clock, lists, candidate: asCandidate, unitOf }),
    async present(name: string, signal: AbortSignal) {
      const path = repositoryPath(name);
      const { uuid: id, full_name } = await api.read(one, path, {
        query: 'fields=uuid,full_name',
        signal,
        use: 'poll',
      });
      return { id, name: full_name };
    },
  };
}
