import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Seen } from '../../model/names.ts';
import { parseAnswer } from '../kit/json.ts';
import { createListing } from '../kit/listing.ts';
import { inScope, namedIn, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

type Project = z.infer<typeof schema.project>;

const NUMBER = /^\d+$/;

/** The projects of the organisation that the token can see, kept for a while. */
export interface Directory {
  /** Those that are named, and those that patterns take in. */
  projects(signal: AbortSignal): Promise<readonly string[]>;
  /** The number of a project, by which issues are listed. Throws `not_found` for a slug that cannot be seen. */
  numberOf(project: string, signal: AbortSignal): Promise<string>;
}

export function createDirectory(api: Api, options: Options, clock: Clock): Directory {
  const scope = scopeOf(options);
  const named = namedIn(scope);
  const listing = createListing(clock, (signal) => allProjects(api, options, signal));
  return {
    async projects(signal) {
      if (patternsOf(scope).length === 0) return named;
      const found = (await listing(signal)).filter(({ id, slug }) => inScope({ id, name: slug }, scope));
      const others = found.filter(({ id, slug }) => !named.includes(id) && !named.includes(slug));
      return [...named, ...others.map(({ slug }) => slug)];
    },
    async numberOf(project, signal) {
      if (NUMBER.test(project)) return project;
      const found = (await listing(signal)).find(({ slug }) => slug === project);
      if (found) return found.id;
      throw new SyncError('not_found', `there is no project ${project} that the token can see`);
    },
  };
}

/** What a slug leads to at this moment. */
export async function presentProject(
  api: Api,
  { organization }: Options,
  slug: string,
  signal: AbortSignal,
): Promise<Seen> {
  const path = `/projects/${organization}/${slug}/`;
  const found = parseAnswer(schema.project, (await api.get(path, signal)).content, `GET ${path}`);
  return { id: found.id, name: found.slug };
}

async function allProjects(api: Api, { organization }: Options, signal: AbortSignal): Promise<readonly Project[]> {
  const path = `/organizations/${organization}/projects/`;
  const all: Project[] = [];
  for (let cursor: string | undefined; ; ) {
    const { found, next } = await api.page(path, { per_page: '100' }, cursor, signal);
    const data = parseAnswer(z.array(schema.project), found, `GET ${path}`);
    all.push(...data);
    if (next === undefined) return all;
    cursor = next;
  }
}
