import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import { segmentOf } from '../kit/addresses.ts';
import { createListing } from '../kit/listing.ts';
import type { Rest } from '../kit/rest.ts';
import * as schema from './schema.ts';

const page = z.object({ value: z.array(schema.project) });
const PAGE = 100;

const states = z.object({ value: z.array(z.object({ name: z.string(), category: z.string() })) });

type State = z.infer<typeof states>['value'][number];

export type States = readonly State[];

/** What work items leave to be looked up: their project by its id, and what their states mean. */
export interface Directory {
  /** A project by its name or id, as it is called now. */
  project(unit: string, signal: AbortSignal): Promise<schema.Project>;
  /** The states of a type of work items, in the order of its process. */
  states(project: string, type: string, signal: AbortSignal): Promise<States>;
}

/** Processes and names change seldom: what was read is kept for a while. */
export function createDirectory(api: Rest, clock: Clock): Directory {
  const projects = new Map<string, ReturnType<typeof createListing<schema.Project>>>();
  const types = new Map<string, ReturnType<typeof createListing<State>>>();

  return {
    async project(unit, signal) {
      const kept = keptAt(projects, unit, () =>
        createListing(clock, async (within) => [await readProject(api, unit, within)]),
      );
      return (await kept(signal))[0] as schema.Project;
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
export async function readProject(api: Rest, unit: string, signal: AbortSignal): Promise<schema.Project> {
  const path = `/_apis/projects/${segmentOf(unit)}`;
  return (await api.read(schema.project, path, {}, signal)).content;
}

async function readStates(api: Rest, project: string, type: string, signal: AbortSignal): Promise<States> {
  const path = `/${segmentOf(project)}/_apis/wit/workitemtypes/${segmentOf(type)}/states`;
  return (await api.read(states, path, {}, signal)).content.value;
}

/** Everything that the credential sees. */
export async function allProjects(api: Rest, signal: AbortSignal): Promise<readonly schema.Project[]> {
  const found: schema.Project[] = [];
  for (;;) {
    const query = { $top: String(PAGE), $skip: String(found.length) };
    const { value } = (await api.read(page, '/_apis/projects', query, signal)).content;
    found.push(...value);
    if (value.length < PAGE) return found;
  }
}
