import type { HttpAnswer } from '../../http/http-client.ts';
import type { Use } from '../kit/budget.ts';
import { readList, writeJson } from '../kit/json.ts';
import type { Api, Neighbour } from './api.ts';
import type { Options } from './options.ts';
import type { Projects } from './projects.ts';
import { KEPT, slim } from './schema.ts';
import { SHAPES } from './translate.ts';
import { pathOf, readUnit } from './units.ts';

interface Wanted {
  readonly unit: string;
  /** Without the page. */
  readonly query: string;
  readonly page?: number | undefined;
  readonly use: Use;
}

/** One page of a unit's list, as it becomes a delivery. */
interface ListPage {
  readonly answer: HttpAnswer;
  /** As GitLab sent them, also those that are not followed. */
  readonly found: readonly unknown[];
  readonly event: string;
  /** Cut down to what is read, of what is followed. */
  readonly body: Buffer;
  readonly what: string;
  pageOf(which: Neighbour): number | undefined;
}

/** Pages of merge requests or issues, of a project or of a group with all that is below it. */
export interface Lists {
  read(wanted: Wanted, signal: AbortSignal): Promise<ListPage>;
  /** Undefined where it is as it was when it came with this validator. */
  readIfChanged(wanted: Wanted, etag: string | undefined, signal: AbortSignal): Promise<ListPage | undefined>;
}

export function createLists(api: Api, projects: Projects, { archived }: Options): Lists {
  async function ask({ unit, query, page, use }: Wanted, etag: string | undefined, signal: AbortSignal) {
    const { list, kind, name } = readUnit(unit);
    const path = `${pathOf({ kind, name })}/${list}`;
    const ofGroup = kind === 'group' ? `&non_archived=${!archived}` : '';
    const ofPage = page === undefined ? '' : `&page=${page}`;
    const answer = await api.get(path, { query: query + ofGroup + ofPage, etag, use, keep: KEPT, signal });
    return { answer, path, list, kind, name };
  }

  async function take({ answer, path, list, kind, name }: Awaited<ReturnType<typeof ask>>, signal: AbortSignal) {
    const what = `GET ${path}`;
    const found = readList(answer, what);
    const followed = kind === 'group' ? await projects.keepFollowed(name, found, signal) : projects.keepNamed(found);
    const pageOf = (which: Neighbour) => api.pageNumber(answer, which, path);
    return { answer, found, event: SHAPES[list].list, body: writeJson(followed.map(slim)), what, pageOf };
  }

  return {
    read: async (wanted, signal) => take(await ask(wanted, undefined, signal), signal),
    async readIfChanged(wanted, etag, signal) {
      const asked = await ask(wanted, etag, signal);
      return asked.answer.status === 304 ? undefined : take(asked, signal);
    },
  };
}
