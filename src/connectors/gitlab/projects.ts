import { z } from 'zod';
import type { Clock } from '../../platform/lib/clock.ts';
import { absent, readable } from '../kit/payload.ts';
import { bestEffort, type RateLimitUse, undefinedOn } from '../kit/refusal.ts';
import { createCache } from '../kit/rest.ts';
import { inScope } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { ISSUES, withoutNumber } from './items.ts';
import { type Options, pathOf, placeOf, scopeOf } from './options.ts';
import { placedInList, projectFacts } from './schema.ts';

const project = z
  .object({
    id: z.int().positive(),
    path_with_namespace: z.string().min(1),
    archived: absent(z.boolean()),
    forked_from_project: absent(z.looseObject({})),
    ...projectFacts.shape,
  })
  .transform(({ id, path_with_namespace: name, archived, forked_from_project: origin, default_branch, visibility }) => {
    const facts = { default_branch, visibility };
    return { id: String(id), name, archived, fork: origin !== undefined, facts };
  });
type Project = z.infer<typeof project>;

/** Milliseconds for which the facts about a named project are cached. */
const FACTS_TTL = 24 * 3_600_000;

const level = absent(z.string());
const features = z.object({
  path_with_namespace: z.string(),
  merge_requests_access_level: level,
  issues_access_level: level,
  merge_requests_enabled: absent(z.boolean()),
  issues_enabled: absent(z.boolean()),
});

/**
 * Names the list of a project that is switched off, for people; undefined if it is on, or unknown. The older flag is false also
 * if only members may see the list, so the level decides if there is one.
 */
export function offIn(noun: string, told: unknown): string | undefined {
  const project = readable(features, told);
  if (!project) return undefined;
  const [levelOf, isOn, words] =
    noun === ISSUES
      ? [project.issues_access_level, project.issues_enabled, 'issues']
      : [project.merge_requests_access_level, project.merge_requests_enabled, 'merge requests'];
  const isOff = levelOf === undefined ? isOn === false : levelOf === 'disabled';
  return isOff ? `${words} of ${project.path_with_namespace}` : undefined;
}

export type Projects = ReturnType<typeof createProjects>;

/** Reads facts about projects, which are cached, because they change rarely. */
export function createProjects(api: Api, options: Options, clock: Clock) {
  const scope = scopeOf(options);
  const one = (name: string, use: RateLimitUse, signal: AbortSignal) =>
    api.read(project, pathOf({ kind: 'project', name }), { use, signal });
  const named = createCache(clock, (name, signal) => one(name, 'background', signal));
  // A lasting refusal is cached too.
  const readProject = (name: string, signal: AbortSignal) =>
    undefinedOn(one(name, 'poll', signal), 'not_found', 'forbidden', 'refused', 'answer_malformed');
  const cachedProject = createCache(clock, readProject, FACTS_TTL);
  const all = createCache(clock, async (group, signal): Promise<readonly Project[]> => {
    const path = `${pathOf({ kind: 'group', name: group })}/projects`;
    const query = 'include_subgroups=true&with_shared=false&order_by=id&sort=asc';
    return api.all(project, path, { query, use: 'poll', signal });
  });

  async function projectsOf(unit: string, signal: AbortSignal): Promise<readonly Project[]> {
    const { kind, name } = placeOf(unit);
    if (kind === 'group') return options.forks ? [] : all(name, signal);
    const named = await cachedProject(name, signal);
    return named ? [named] : [];
  }

  return {
    /** Returns merge requests of a page with facts about their projects, as far as they can be read. A named project is read once a day. */
    async withFacts(unit: string, page: readonly unknown[], signal: AbortSignal) {
      if (page.length === 0) return page;
      const known = await bestEffort(() => projectsOf(unit, signal), signal);
      const byId = new Map(known?.map(({ id, facts }) => [id, facts]));
      return page.map((element) => ({ ...(element as object), project: byId.get(placeIn(element).id) }));
    },
    /** The projects of a group and its subgroups that are in scope. */
    followed: async (group: string, signal: AbortSignal) =>
      (await all(group, signal)).filter((each) => inScope(each, scope)),
    /** Removes elements of projects out of scope from a page of a group's list. */
    async keepFollowed(group: string, page: readonly unknown[], signal: AbortSignal) {
      // An empty page needs no list of projects: a poll of an idle group takes one request.
      if (page.length === 0) return page;
      const known = options.forks ? [] : await all(group, signal);
      const byId = new Map(known.map((each) => [each.id, each]));
      return page.filter((element) => {
        const { id, name } = placeIn(element);
        return name === undefined || inScope(byId.get(id) ?? { id, name }, scope);
      });
    },
    /** Removes excluded elements from a page of a project's list. */
    keepNamed(page: readonly unknown[]) {
      if (options.exclude.length === 0) return page;
      return page.filter((element) => {
        const { id, name } = placeIn(element);
        return name === undefined || inScope({ id, name }, { ...scope, include: [id] });
      });
    },
    present: (name: string, signal: AbortSignal) => one(name, 'poll', signal),
    /** Reads whether the list is switched off now; see `offIn`. */
    async switchedOff(noun: string, unit: string, signal: AbortSignal) {
      const place = placeOf(unit);
      // The list of a group leaves out projects whose list is switched off.
      if (place.kind === 'group') return undefined;
      return offIn(noun, await api.read(z.unknown(), pathOf(place), { use: 'poll', signal }));
    },
    numberOf: async (name: string, signal: AbortSignal) => (/^\d+$/.test(name) ? name : (await named(name, signal)).id),
  };
}

/** Returns the project of a listed element; without a name if the element does not contain it: `translate` then decides. */
function placeIn(element: unknown): { readonly id: string; readonly name?: string } {
  const { project_id: id, references } = readable(placedInList, element) ?? {};
  return references ? { id: String(id), name: withoutNumber(references.full) } : { id: '' };
}
