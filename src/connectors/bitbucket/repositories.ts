import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import { parseAnswer } from '../kit/json.ts';
import { createListing } from '../kit/listing.ts';
import { type Candidate, inScope, namedIn, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import { repository, uuid } from './schema.ts';

/** What the scope of a connection takes in at the moment. */
export interface Repositories {
  /**
   * `workspace/slug` where the configuration names a repository, `workspace/{uuid}` where a pattern took it in: so what is
   * known of it stays with it under a new name. Costs nothing where there are no patterns.
   */
  units(signal: AbortSignal): Promise<readonly string[]>;
  /** What a name leads to at this moment. */
  present(name: string, signal: AbortSignal): Promise<Candidate>;
  /** What the patterns take in beside what is named. */
  listed(signal: AbortSignal): Promise<readonly Candidate[]>;
}

/** The path of the repository of a unit. */
export function repositoryPath(unit: string): string {
  return `/repositories/${unit.split('/').map(encodeURIComponent).join('/')}`;
}

/** `workspace/{uuid}`: its id is enough, and its workspace makes it an address that is documented. */
export function unitOf({ id, name }: Candidate): string {
  return `${name.split('/', 1)[0]}/${id}`;
}

/** More pages than any workspace has; a list that links in circles ends. */
const MOST_PAGES = 1_000;
const FIELDS = ['next', ...['uuid', 'full_name', 'parent.uuid'].map((field) => `values.${field}`)].join(',');

export function createRepositories(api: Api, options: Options, clock: Clock): Repositories {
  const scope = scopeOf(options);
  const named = namedIn(scope);
  const names = new Set(named.map((name) => name.toLowerCase()));
  const workspaces = [...new Set(patternsOf(scope).map((pattern) => pattern.split('/', 1)[0] as string))];

  const listed = createListing(clock, async (signal) => {
    const found = new Map<string, Candidate>();
    for (const workspace of workspaces)
      for (const each of await readAll(api, workspace, signal))
        if (inScope(each, scope) && !names.has(each.name.toLowerCase())) found.set(each.id, each);
    return [...found.values()];
  });

  return {
    listed,
    async present(name, signal) {
      const path = repositoryPath(name);
      const answer = await api.read(path, { query: 'fields=uuid,full_name', signal, use: 'poll' });
      const found = parseAnswer(one, answer, `GET ${path}`);
      return { id: found.uuid, name: found.full_name };
    },
    units: async (signal) => (workspaces.length === 0 ? named : [...named, ...(await listed(signal)).map(unitOf)]),
  };
}

const one = z.object({ uuid, full_name: z.string() });
const page = z.object({ values: z.array(repository), next: z.unknown().optional() });
type Page = z.infer<typeof page>;

/** Every repository of a workspace that the credential may see; all pages or none. */
async function readAll(api: Api, workspace: string, signal: AbortSignal): Promise<readonly Candidate[]> {
  const path = `/repositories/${workspace}`;
  const all: Candidate[] = [];
  let query: string | undefined = new URLSearchParams({
    pagelen: '100',
    sort: 'created_on',
    fields: FIELDS,
  }).toString();
  for (let count = 0; query !== undefined; count++) {
    if (count === MOST_PAGES) throw new SyncError('answer_malformed', `GET ${path}: the list does not end`);
    const { values, next }: Page = parseAnswer(
      page,
      await api.read(path, { query, signal, use: 'poll' }),
      `GET ${path}`,
    );
    all.push(...values.map(({ uuid, full_name, parent }) => ({ id: uuid, name: full_name, fork: Boolean(parent) })));
    query = next === undefined ? undefined : api.nextQuery(next, path);
  }
  return all;
}
