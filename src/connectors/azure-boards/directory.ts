import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import { segmentOf } from '../kit/addresses.ts';
import { createCache } from '../kit/listing.ts';
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

export function createDirectory(api: Rest, clock: Clock): Directory {
  const readStates = async (path: string, signal: AbortSignal) =>
    (await api.read(states, path, {}, signal)).content.value;
  const cached = createCache(clock, readStates);
  return {
    project: createCache(clock, (unit, signal) => readProject(api, unit, signal)),
    states: (project, type, signal) =>
      cached(`/${segmentOf(project)}/_apis/wit/workitemtypes/${segmentOf(type)}/states`, signal),
  };
}

/** A project by its name or id, as it is at this moment. */
export async function readProject(api: Rest, unit: string, signal: AbortSignal): Promise<schema.Project> {
  const path = `/_apis/projects/${segmentOf(unit)}`;
  return (await api.read(schema.project, path, {}, signal)).content;
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
