import { z } from 'zod';
import { commitsOption } from '../kit/commits.ts';
import { hostName, httpsAddress, nameOrNumber, oneWord } from '../kit/options.ts';
import { asBase } from '../kit/rest.ts';
import { isPattern, namedIn, patternsOf, type Scope, type WithNames } from '../kit/scope.ts';

/** A project's number, or its path `group/…/project`; no part may be `.` or `..`, so that a path made of it stays in its place. */
export const PROJECT = /^(?:[1-9]\d{0,15}|(?:(?!\.{1,2}\/)[\w.-]{1,255}\/){1,21}(?!\.{1,2}$)[\w.-]{1,255})$/;

export const PUBLIC_HOST = 'gitlab.com';

/** A project's number, or its path with stars below a group without any: worksync lists the projects of that group. */
const PROJECTS =
  /^(?:[1-9]\d{0,15}|(?!\.{1,2}\/)[\w.-]{1,255}\/(?:(?!\.{1,2}\/)[\w.*-]{1,255}\/){0,20}(?!\.{1,2}$)[\w.*-]{1,255})$/;
const GROUP = /^(?:(?!\.{1,2}(?:\/|$))[\w.-]{1,255})(?:\/(?!\.{1,2}(?:\/|$))[\w.-]{1,255}){0,19}$/;

const projects = z
  .array(
    nameOrNumber(
      PROJECTS,
      'must be group/project, a pattern behind a group such as acme/api-*, or the number of a project',
    ),
  )
  .default([]);

export const options = z
  .strictObject({
    host: hostName('gitlab.example.com')
      .default(PUBLIC_HOST)
      .describe('Host of the GitLab: gitlab.com, or one that you run.'),
    apiUrl: httpsAddress
      .optional()
      .describe(
        'Address of the API, where it is not `https://<host>/api/v4`: a GitLab below a path or on another port, a proxy, or a test.',
      ),
    token: oneWord(/^[\x21-\x7e]{1,1000}$/)
      .optional()
      .describe(
        'Project, group or personal access token with the scope `read_api`. Without one worksync reads only public projects.',
      ),
    projects: projects.describe(
      'Projects as group/project, patterns (`acme/*`, `acme/platform/**`), or numbers, which survive renaming. worksync ignores deliveries of others.',
    ),
    groups: z
      .array(z.string().regex(GROUP, 'must be the path of one group, for example acme/platform'))
      .default([])
      .describe('Groups by path; worksync follows all their projects, those of subgroups too.'),
    exclude: projects.describe('Projects to leave out, as paths, patterns or numbers.'),
    archived: z.boolean().default(false).describe('Whether patterns and groups take in archived projects.'),
    forks: z.boolean().default(false).describe('Whether patterns and groups take in forks.'),
    issues: z.boolean().default(false).describe('Whether worksync follows issues too, as work items.'),
    commits: commitsOption,
    confidential: z
      .boolean()
      .default(false)
      .describe('Whether worksync follows confidential issues too. Everybody in the workspace can then read them.'),
  })
  .refine((given) => given.projects.length + given.groups.length > 0, {
    path: ['projects'],
    message: 'must name at least one project, here or by groups',
  });

export type Options = z.infer<typeof options>;

export type Access = Pick<Options, 'host' | 'apiUrl' | 'token'>;

/** Base of the REST API, without a slash at its end (GL10). */
export function apiBase(given: Pick<Access, 'host' | 'apiUrl'>): string {
  return given.apiUrl === undefined ? derivedBase(given.host) : asBase(given.apiUrl);
}

/** The base that this host writes into its links and redirects, even when requests go through another address. */
export function derivedBase(host: string): string {
  return `https://${host}/api/v4`;
}

/** Options that include every project of a host, for inspecting payloads; issues stay off, as by default. */
export function unrestricted(host = PUBLIC_HOST): Options {
  const scope = { projects: ['**'], groups: [], exclude: [], archived: true, forks: true };
  return { host, ...scope, issues: false, commits: false, confidential: false };
}

export function scopeOf({ projects, groups, exclude, archived, forks, names }: Options & WithNames): Scope {
  return { include: [...projects, ...groups.map((group) => `${group}/**`)], exclude, archived, forks, names };
}

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
