import { z } from 'zod';
import type { GitListRequest, GitSource } from '../kit/git.ts';
import { invalidPage } from '../kit/pages.ts';
import { parseAnswer } from '../kit/payload.ts';
import type { Selection } from '../kit/walk.ts';
import { type Api, readPage } from './api.ts';
import { identityOf, type Locator } from './items.ts';
import { repositoryPath } from './repositories.ts';
import { FIELDS_OF_LIST, uuid } from './schema.ts';

const EVERY_STATE = ['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED'];

/**
 * Pages of a repository's pull requests (BB1), newest change first. worksync follows the links to the next page unchanged. What
 * changes during the walk moves to the front and pushes others towards pages still to come, so the walk misses none. (Oldest
 * first would lose the neighbour of each one that moves to the end.)
 *
 * The first walk does not count pages: what somebody closes during the walk leaves the list, and everything behind it moves
 * forward, past a counted page. So it goes by the oldest change, and each page begins at the time at which the previous ended.
 */
export function createLists(api: Api): Pick<GitSource<Locator>, 'list' | 'pageContent' | 'sweptPage'> {
  return {
    async list({ unit, selection, page, use }: GitListRequest, signal) {
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
    pageContent: async (values) => ({ values }),
    async sweptPage(found, { unit }) {
      const all = parseAnswer(elements, found, `the list of ${unit}`);
      const keys = all.map(({ id, destination }) => identityOf(destination.repository, id).key);
      return { keys, containers: [...new Set(all.map(({ destination }) => destination.repository.uuid))] };
    },
  };
}

const elements = z.array(
  z.object({ id: z.int().positive(), destination: z.object({ repository: z.object({ uuid }) }) }),
);

function firstQuery(selection: Selection): string {
  if (selection.items === 'open') return openSince();
  // Oldest first: nobody can delete a pull request, so none moves towards a page that was read.
  if (selection.items === 'ids')
    return listQuery(EVERY_STATE, { sort: 'id', fields: 'next,values.id,values.destination.repository.uuid' });
  const { since, way } = selection;
  return listQuery(EVERY_STATE, {
    ...(since !== undefined && { q: changedSince(since) }),
    sort: '-updated_on',
    ...(way === 'history' && { fields: `size,${FIELDS_OF_LIST}` }),
  });
}

/** With `q`, Bitbucket ignores `state`: so both contain the state. */
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

/** Bitbucket's query language refuses `Z` as an offset, and quotes around a time. */
function changedSince(time: number): string {
  return `updated_on >= ${new Date(time).toISOString().replace('Z', '+00:00')}`;
}

/** A stored page is `since:<time>`, of the first walk, or `link:<query>`. */
function queryOf(page: string): string {
  const linked = /^link:([\x21-\x7e]{1,4000})$/.exec(page)?.[1];
  if (linked !== undefined) return linked;
  const time = /^since:(.{1,40})$/.exec(page)?.[1];
  if (isTime(time)) return openSince(time);
  throw invalidPage(page);
}

/**
 * Where the next page of the first walk begins: at the time of the last element, which the walk reads twice. Undefined where
 * that would ask for the same page again, since all its elements have one time, or where a time cannot be read.
 */
function continued(values: readonly unknown[]): string | undefined {
  const [first, last] = [updatedOn(values[0]), updatedOn(values.at(-1))];
  return isTime(first) && isTime(last) && first !== last ? `since:${last}` : undefined;
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?\+00:00$/;

/** Whether a text is a time of Bitbucket and nothing else, so that worksync may send it back unchanged. */
function isTime(text: unknown): text is string {
  return typeof text === 'string' && TIME.test(text) && !Number.isNaN(Date.parse(text));
}

function updatedOn(pull: unknown): unknown {
  return (pull as { updated_on?: unknown } | null | undefined)?.updated_on;
}
