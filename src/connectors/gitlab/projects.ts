import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import type { Use } from '../kit/budget.ts';
import { absent } from '../kit/fields.ts';
import { readable } from '../kit/json.ts';
import { createCache } from '../kit/listing.ts';
import { type Candidate, inScope } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { withoutNumber } from './items.ts';
import { type Options, scopeOf } from './options.ts';
import { placedInList } from './schema.ts';
import { pathOf } from './units.ts';

const project = z
  .object({
    id: z.int().positive(),
    path_with_namespace: z.string().min(1),
    archived: absent(z.boolean()),
    forked_from_project: absent(z.looseObject({})),
  })
  .transform(({ id, path_with_namespace: name, archived, forked_from_project: origin }) => {
    return { id: String(id), name, archived, fork: origin !== undefined };
  });

/** Knowledge about projects, cached for the life of the connection: it changes seldom. */
export interface Projects {
  /** The projects of a group and its subgroups that are in scope. Reads an old list again. */
  followed(group: string, signal: AbortSignal): Promise<readonly Candidate[]>;
  /** Removes from a page of a group's list what belongs to projects out of scope. */
  keepFollowed(group: string, page: readonly unknown[], signal: AbortSignal): Promise<readonly unknown[]>;
  /** Removes from a page of a project's list what is excluded. */
  keepNamed(page: readonly unknown[]): readonly unknown[];
  /** What a path leads to at this moment. */
  present(name: string, signal: AbortSignal): Promise<Candidate>;
  /** The number of a project that may be named by its path. */
  numberOf(name: string, signal: AbortSignal): Promise<string>;
}

export function createProjects(api: Api, options: Options, clock: Clock): Projects {
  const scope = scopeOf(options);
  const one = (name: string, use: Use, signal: AbortSignal) =>
    api.read(project, pathOf({ kind: 'project', name }), { use, signal });
  const named = createCache(clock, (name, signal) => one(name, 'background', signal));
  const all = createCache(clock, async (group, signal): Promise<readonly Candidate[]> => {
    const path = `${pathOf({ kind: 'group', name: group })}/projects`;
    const query = 'include_subgroups=true&with_shared=false&order_by=id&sort=asc';
    return api.all(project, path, { query, use: 'poll', signal });
  });

  return {
    followed: async (group, signal) => (await all(group, signal)).filter((each) => inScope(each, scope)),
    async keepFollowed(group, page, signal) {
      // An empty page needs no list of projects: a poll of an idle group takes one request.
      if (page.length === 0) return page;
      const known = options.forks ? [] : await all(group, signal);
      const byId = new Map(known.map((each) => [each.id, each]));
      return page.filter((element) => {
        const { id, name } = placeIn(element);
        return name === undefined || inScope(byId.get(id) ?? { id, name }, scope);
      });
    },
    keepNamed(page) {
      if (options.exclude.length === 0) return page;
      return page.filter((element) => {
        const { id, name } = placeIn(element);
        return name === undefined || inScope({ id, name }, { ...scope, include: [id] });
      });
    },
    present: (name, signal) => one(name, 'poll', signal),
    numberOf: async (name, signal) => (/^\d+$/.test(name) ? name : (await named(name, signal)).id),
  };
}

/** The project of a listed element; without a name where the element does not tell it: `translate` then judges it. */
function placeIn(element: unknown): { readonly id: string; readonly name?: string } {
  const { project_id: id, references } = readable(placedInList, element) ?? {};
  return references ? { id: String(id), name: withoutNumber(references.full) } : { id: '' };
}
