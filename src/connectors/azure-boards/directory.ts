import { z } from 'zod';
import type { Clock } from '../../platform/lib/clock.ts';
import { createCache } from '../kit/cached-reads.ts';
import { countedPagesOf } from '../kit/pages.ts';
import { absent, omitUndefined, readable } from '../kit/payload.ts';
import { undefinedOn } from '../kit/refusal.ts';
import { type Rest, segmentOf } from '../kit/rest.ts';
import * as schema from './schema.ts';

const page = z.object({ value: z.array(schema.project) });
const PAGE = 100;

const states = z.object({ value: z.array(z.object({ name: z.string(), category: z.string() })) });

const about = z.object({
  fields: z.object({ 'System.State': absent(z.string().min(1)), 'System.WorkItemType': absent(z.string().min(1)) }),
});

/** Reads what work items do not contain: their project by its id, and the category of their states. Both change rarely. */
export function createDirectory(api: Rest, clock: Clock) {
  const cached = createCache(clock, async (path, signal) => (await api.read(states, path, {}, signal)).content.value);

  /** The states of a type of work items, in the order of its process. */
  const statesOf = (project: string, type: string, signal: AbortSignal) =>
    cached(`/${segmentOf(project)}/_apis/wit/workitemtypes/${segmentOf(type)}/states`, signal);

  /** Returns undefined if the process no longer has the type or the state: the item then keeps its state. */
  async function categoryOf(found: unknown, project: schema.Project, signal: AbortSignal): Promise<string | undefined> {
    const { 'System.State': state, 'System.WorkItemType': type } = readable(about, found)?.fields ?? {};
    if (state === undefined || type === undefined) return undefined;
    const known = await undefinedOn(statesOf(project.id, type, signal), 'not_found');
    return known?.find(({ name }) => name === state)?.category;
  }

  return {
    /** A project by its name or id, with its present name. */
    project: createCache(clock, (unit, signal) => readProject(api, unit, signal)),
    statesOf,
    categoryOf,
    /** Returns a work item as it is stored: the read fields, its project by id and name, the category of its state. */
    async enrich(found: unknown, project: schema.Project, signal: AbortSignal): Promise<unknown> {
      const kept = schema.slim(found);
      if (typeof kept !== 'object' || kept === null) return kept;
      return { ...kept, project, ...omitUndefined({ category: await categoryOf(found, project, signal) }) };
    },
  };
}

/** Reads a project by its name or id, without the cache. */
export async function readProject(api: Rest, unit: string, signal: AbortSignal): Promise<schema.Project> {
  const path = `/_apis/projects/${segmentOf(unit)}`;
  return (await api.read(schema.project, path, {}, signal)).content;
}

/** Returns all projects that the credential can see. */
export async function allProjects(api: Rest, signal: AbortSignal): Promise<readonly schema.Project[]> {
  const path = '/_apis/projects';
  const pages = countedPagesOf(`GET ${path}`, async (seen) => {
    const query = { $top: String(PAGE), $skip: String(seen) };
    const { value } = (await api.read(page, path, query, signal)).content;
    return { found: value, isLast: value.length < PAGE };
  });
  return (await Array.fromAsync(pages)).flat();
}
