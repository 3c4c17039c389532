import { sorted } from '../kit/fields.ts';
import { readable } from '../kit/json.ts';
import { inScope } from '../kit/scope.ts';
import { type Options, scopeOf } from './options.ts';
import { type HookProject, placed } from './schema.ts';

/** What merge requests and issues have in common. */

/**
 * Webhooks tell of a project only this, and nothing of archives and forks: those are then judged by name alone. Undefined
 * where a webhook does not tell the name, and the number alone does not decide.
 */
export function isFollowed({ id, path_with_namespace: name }: HookProject, options: Options): boolean | undefined {
  const scope = scopeOf(options);
  if (name !== undefined) return inScope({ id: String(id), name }, scope);
  if (scope.exclude.includes(String(id))) return false;
  return scope.exclude.length === 0 && scope.include.includes(String(id)) ? true : undefined;
}

/** The project that a webhook is about, wherever it says so; undefined where it names none, as those of epics do. */
export function projectIn(payload: unknown): HookProject | undefined {
  const told = readable(placed, payload);
  if (!told) return undefined;
  const { project, object_attributes: own, merge_request: request, issue } = told;
  const ids = [
    project?.id,
    ...[request, issue, own].flatMap((each) => [each?.target_project_id, each?.project_id]),
    told.project_id,
  ];
  const id = ids.find((each) => each !== undefined);
  if (id === undefined) return undefined;
  const path = project?.path_with_namespace ?? (request ?? own)?.target?.path_with_namespace;
  return path === undefined ? { id } : { id, path_with_namespace: path };
}

/**
 * Webhooks write whole seconds, the API milliseconds. Compared as they are, what was read early in a second would beat
 * the webhook of a later change in the same second. As whole seconds the two tie, and the object is fetched.
 */
export function wholeSeconds(instant: string): number {
  return Math.floor(Date.parse(instant) / 1_000) * 1_000;
}

export function asInstant(instant: string | undefined): string | undefined {
  return instant === undefined ? undefined : new Date(wholeSeconds(instant)).toISOString();
}

/** Webhooks turn the addresses of images into absolute ones: such a text is not what the API says, and back again. */
export function asWritten(description: string | null | undefined): string | null | undefined {
  return description?.includes('![') ? undefined : description;
}

interface Account {
  readonly username: string;
}

export function usernames(accounts: readonly Account[] | undefined): string[] | undefined {
  return sorted(accounts?.map(({ username }) => username));
}

/** GitLab leaves the list out where nobody is in it; the numbers tell that from a list that is not carried. */
export function people(
  accounts: readonly Account[] | undefined,
  ids: readonly number[] | undefined,
): string[] | undefined {
  if (accounts) return usernames(accounts);
  return ids?.length === 0 ? [] : undefined;
}

/** `acme/api!12` and `acme/api#45` → `acme/api` */
export function withoutNumber(reference: string): string {
  return reference.replace(/[!#]\d+$/, '');
}
