import { isPattern, namedIn, patternsOf } from '../kit/scope.ts';
import { type Options, scopeOf } from './options.ts';

export interface Place {
  readonly kind: 'project' | 'group';
  /** Path, or number of a project. */
  readonly name: string;
}

/** The places whose lists polls walk: each named project, and the groups. */
export function placesOf(given: Options): readonly Place[] {
  const projects = namedIn(scopeOf(given)).map((name) => ({ kind: 'project', name }) as const);
  return [...projects, ...groupsOf(given).map((name) => ({ kind: 'group', name }) as const)];
}

/** The name of a unit of polls: `acme/api` is a project, `acme/` a group. */
export function unitOf({ kind, name }: Place): string {
  return kind === 'group' ? `${name}/` : name;
}

export function placeOf(unit: string): Place {
  return unit.endsWith('/') ? { kind: 'group', name: unit.slice(0, -1) } : { kind: 'project', name: unit };
}

/** The groups whose lists polls walk: those that are named, and those that patterns begin with; none within another one. */
export function groupsOf(given: Options): readonly string[] {
  const all = [...new Set([...given.groups, ...patternsOf(scopeOf({ ...given, groups: [] })).map(groupOfPattern)])];
  return all.filter((group) => !all.some((other) => isBelow(group, other)));
}

/** Projects that are named one by one, outside of the groups whose lists polls walk anyway. */
export function projectsOutside(given: Options): readonly string[] {
  const groups = groupsOf(given);
  return namedIn(scopeOf(given)).filter((name) => !groups.some((group) => isBelow(name, group)));
}

/** `acme/platform/api-*` matches only projects of `acme/platform`. */
function groupOfPattern(pattern: string): string {
  const parts = pattern.split('/');
  return parts.slice(0, parts.findIndex(isPattern)).join('/');
}

function isBelow(path: string, group: string): boolean {
  return path.toLowerCase().startsWith(`${group.toLowerCase()}/`);
}

export function pathOf({ kind, name }: Place): string {
  return `/${kind}s/${encodeURIComponent(name)}`;
}
