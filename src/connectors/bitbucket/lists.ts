import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { GitSource, WantedOf } from '../kit/git-vendor.ts';
import { parseAnswer } from '../kit/json.ts';
import type { Selection } from '../kit/walk.ts';
import { type Api, readPage } from './api.ts';
import { keyOf, type Locator } from './items.ts';
import { repositoryPath } from './repositories.ts';
import { FIELDS_OF_LIST, uuid } from './schema.ts';

const EVERY_STATE = ['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED'];

/**
 * Pages of a repository's pull requests (BB1), along the links to the next page as they are given, newest change first. What
 * changes meanwhile moves to the front, so it pushes others towards pages still to come: none is missed. (Oldest first would
 * lose the neighbour of each one that moves to the end.)
 *
 * The first walk counts no pages: one that is closed meanwhile leaves the list, and everything behind it moves forward, past
 * a page that is counted. So it goes by the oldest change first, and each page begins at the time at which the last one ended.
 */
export function createLists(api: Api): Pick<GitSource<Locator>, 'list' | 'pageOf' | 'swept'> {
  return {
    async list({ unit, selection, page, use }: WantedOf, signal) {
      const path = `${repositoryPath(unit)}/pullrequests`;
      const query = page === undefined ? firstQuery(selection) : queryOf(page);
      const answer = await api.get(path, { query, signal, use, keep: true });
      const { found, next } = api.pageOf(answer, { path, query });
      const { size } = readPage(answer, path);
      const link = next && `link:${next}`;
      return {
        found,
        next: selection.items === 'open' ? link && (continued(found) ?? link) : link,
        answer,
        total: typeof size === 'number' ? size : undefined,
      };
    },
    pageOf: async (values) => ({ values }),
    async swept(found, { unit }) {
      const all = parseAnswer(elements, found, `the list of ${unit}`);
      const repositories = all.map(({ destination }) => destination.repository.uuid);
      const keys = all.map(({ id }, at) => keyOf(repositories[at] as string, id));
      return { keys, containers: [...new Set(repositories)] };
    },
  };
}

const elements = z.array(
  z.object({ id: z.int().positive(), destination: z.object({ repository: z.object({ uuid }) }) }),
);

function firstQuery(selection: Selection): string {
  if (selection.items === 'open') return openSince();
  // Oldest first: none can be deleted, so none moves towards a page that was read.
  if (selection.items === 'ids')
    return listQuery(EVERY_STATE, { sort: 'id', fields: 'next,values.id,values.destination.repository.uuid' });
  const { since, way } = selection;
  return listQuery(EVERY_STATE, {
    ...(since !== undefined && { q: changedSince(since) }),
    sort: '-updated_on',
    ...(way === 'history' && { fields: `size,${FIELDS_OF_LIST}` }),
  });
}

/** Beside `q`, Bitbucket does not look at `state`: what is wanted stands in both. */
function openSince(time?: string): string {
  const condition = time === undefined ? undefined : { q: `state = "OPEN" AND updated_on >= ${time}` };
  return listQuery(['OPEN'], { ...condition, sort: 'updated_on' });
}

function listQuery(states: readonly string[], rest: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(states.map((state) => ['state', state]));
  for (const [name, value] of Object.entries({ pagelen: '50', fields: FIELDS_OF_LIST, ...rest }))
    query.append(name, value);
  return query.toString();
}

/** Bitbucket's query language refuses the `Z`, and takes no quotes around a time. */
function changedSince(time: number): string {
  return `updated_on >= ${new Date(time).toISOString().replace('Z', '+00:00')}`;
}

/** A stored page is `since:<time>`, of the first walk, or `link:<query>`. */
function queryOf(page: string): string {
  const linked = /^link:([\x21-\x7e]{1,4000})$/.exec(page)?.[1];
  if (linked !== undefined) return linked;
  const time = /^since:(.{1,40})$/.exec(page)?.[1];
  if (isTime(time)) return openSince(time);
  throw new SyncError('internal', `the stored page of a walk is not one of ours: ${page.slice(0, 40)}`);
}

/**
 * Where the next page of the first walk begins: at the time of the last element, which is read twice. Undefined where
 * that would ask for the same page again, since the whole page shares one time, or where times cannot be read.
 */
function continued(values: readonly unknown[]): string | undefined {
  const [first, last] = [updatedOn(values[0]), updatedOn(values.at(-1))];
  return isTime(first) && isTime(last) && first !== last ? `since:${last}` : undefined;
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?\+00:00$/;

/** A time of Bitbucket that may be sent back as it came: to the microsecond, and nothing but a time. */
function isTime(text: unknown): text is string {
  return typeof text === 'string' && TIME.test(text) && !Number.isNaN(Date.parse(text));
}

function updatedOn(pull: unknown): unknown {
  return (pull as { updated_on?: unknown } | null | undefined)?.updated_on;
}
