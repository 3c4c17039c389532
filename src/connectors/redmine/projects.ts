import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import { absent } from '../kit/fields.ts';
import { parseAnswer } from '../kit/json.ts';
import { createListing } from '../kit/listing.ts';
import { inScope, namedIn, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

const answered = z.object({ project: schema.project });

/** A project by its identifier or its number. */
export async function readProject(api: Api, unit: string, signal: AbortSignal): Promise<schema.Project> {
  const path = `/projects/${encodeURIComponent(unit)}.json`;
  const data = parseAnswer(answered, (await api.get(path, {}, signal)).content, `GET ${path}`);
  return data.project;
}

const PATH = '/projects.json';
const PAGE = 100;
/** Of an archived project nothing can be read. */
const ARCHIVED = 9;

const listed = schema.project.extend({ status: absent(z.int()) });
const page = z.object({ projects: z.array(listed), total_count: z.int().min(0) });

async function allProjects(api: Api, signal: AbortSignal): Promise<readonly z.infer<typeof listed>[]> {
  const all: z.infer<typeof listed>[] = [];
  for (;;) {
    const query = { limit: String(PAGE), offset: String(all.length) };
    const data = parseAnswer(page, (await api.get(PATH, query, signal)).content, `GET ${PATH}`);
    all.push(...data.projects);
    if (data.projects.length === 0 || all.length >= data.total_count) return all;
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
    const taken = found.filter(({ id, identifier, status }) =>
      inScope({ id: String(id), name: identifier, archived: status === ARCHIVED }, scope),
    );
    const others = taken.filter(({ id, identifier }) => !named.includes(String(id)) && !named.includes(identifier));
    return [...named, ...others.map(({ identifier }) => identifier)];
  };
}
