import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import { absent } from '../kit/fields.ts';
import { parseAnswer } from '../kit/json.ts';
import { createListing } from '../kit/listing.ts';
import { inScope, namedIn, patternsOf } from '../kit/scope.ts';
import { type Api, malformed } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

const project = z.object({
  id: schema.id,
  key: z.string().regex(/^[A-Z][A-Z0-9_]{0,254}$/),
  name: absent(z.string()),
  archived: absent(z.boolean()),
});

export type Project = z.infer<typeof project>;

/** A project by its key or its number; an old key finds it too. */
export async function readProject(api: Api, unit: string, signal: AbortSignal): Promise<Project> {
  const path = `/rest/api/3/project/${encodeURIComponent(unit)}`;
  const data = parseAnswer(project, (await api.get(path, {}, signal)).content, `GET ${path}`);
  return data;
}

const PATH = '/rest/api/3/project/search';
const PAGE = 50;
const page = z.object({ values: z.array(project), isLast: z.boolean() });

async function allProjects(api: Api, signal: AbortSignal): Promise<readonly Project[]> {
  const all: Project[] = [];
  for (;;) {
    const query = { startAt: String(all.length), maxResults: String(PAGE), orderBy: 'key' };
    const data = parseAnswer(page, (await api.get(PATH, query, signal)).content, `GET ${PATH}`);
    if (data.values.length === 0 && !data.isLast) throw malformed(`GET ${PATH}: a page is empty that is not the last`);
    all.push(...data.values);
    if (data.isLast) return all;
  }
}

/** The projects to walk: those that are named, and those that patterns take in. */
export function unitsOf(api: Api, options: Options, clock: Clock): (signal: AbortSignal) => Promise<readonly string[]> {
  const scope = scopeOf(options);
  const named = namedIn(scope);
  if (patternsOf(scope).length === 0) return async () => named;
  const listing = createListing(clock, (signal) => allProjects(api, signal));
  return async (signal) => {
    const found = await listing(signal);
    const taken = found.filter(({ id, key, archived }) => inScope({ id, name: key, archived }, scope));
    const others = taken.filter(({ id, key }) => !named.includes(id) && !named.includes(key));
    return [...named, ...others.map(({ key }) => key)];
  };
}
