import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import { parseAnswer } from '../kit/json.ts';
import { createListing } from '../kit/listing.ts';
import { inScope, namedIn, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

export type Project = z.infer<typeof schema.project>;

const page = z.object({ value: z.array(schema.project) });
const PAGE = 100;

const states = z.object({ value: z.array(z.object({ name: z.string(), category: z.string() })) });

type State = z.infer<typeof states>['value'][number];

export type States = readonly State[];

/** What work items leave to be looked up: their project by its id, and what their states mean. */
export interface Directory {
  /** Projects to walk: those that are named, and those that patterns take in. */
  units(signal: AbortSignal): Promise<readonly string[]>;
  /** A project by its name or id, as it is called now. */
  project(unit: string, signal: AbortSignal): Promise<Project>;
  /** The states of a type of work items, in the order of its process. */
  states(project: string, type: string, signal: AbortSignal): Promise<States>;
}

/** Processes and names change seldom: what was read is kept for a while. */
export function createDirectory(api: Api, options: Options, clock: Clock): Directory {
  const scope = scopeOf(options);
  const named = namedIn(scope);
  const all = createListing(clock, (signal) => allProjects(api, signal));
  const projects = new Map<string, ReturnType<typeof createListing<Project>>>();
  const types = new Map<string, ReturnType<typeof createListing<State>>>();

  return {
    async units(signal) {
      if (patternsOf(scope).length === 0) return named;
      const taken = (await all(signal)).filter((each) => inScope(each, scope));
      const others = taken.filter(({ id, name }) => !named.includes(id) && !named.includes(name));
      return [...named, ...others.map(({ id }) => id)];
    },
    async project(unit, signal) {
      const kept = keptAt(projects, unit, () =>
        createListing(clock, async (within) => [await readProject(api, unit, within)]),
      );
      return (await kept(signal))[0] as Project;
    },
    async states(project, type, signal) {
      const kept = keptAt(types, `${project}/${type}`, () =>
        createListing(clock, async (within) => await readStates(api, project, type, within)),
      );
      return await kept(signal);
    },
  };
}

function keptAt<Kept>(kept: Map<string, Kept>, name: string, make: () => Kept): Kept {
  const known = kept.get(name);
  if (known !== undefined) return known;
  const made = make();
  kept.set(name, made);
  return made;
}

/** A project by its name or id, as it is at this moment. */
export async function readProject(api: Api, unit: string, signal: AbortSignal): Promise<Project> {
  const path = `/_apis/projects/${encodeURIComponent(unit)}`;
  const data = parseAnswer(schema.project, (await api.get(path, {}, signal)).content, `GET ${path}`);
  return data;
}

async function readStates(api: Api, project: string, type: string, signal: AbortSignal): Promise<States> {
  const path = `/${encodeURIComponent(project)}/_apis/wit/workitemtypes/${encodeURIComponent(type)}/states`;
  const data = parseAnswer(states, (await api.get(path, {}, signal)).content, `GET ${path}`);
  return data.value;
}

async function allProjects(api: Api, signal: AbortSignal): Promise<readonly Project[]> {
  const found: Project[] = [];
  for (;;) {
    const query = { $top: String(PAGE), $skip: String(found.length) };
    const data = parseAnswer(page, (await api.get('/_apis/projects', query, signal)).content, 'GET /_apis/projects');
    found.push(...data.value);
    if (data.value.length < PAGE) return found;
  }
}
