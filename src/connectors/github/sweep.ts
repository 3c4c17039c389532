import { z } from 'zod';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { ItemKey } from '../../model/item.ts';
import type { Connection } from '../connector.ts';
import { parseAnswer, readAnswer } from '../kit/json.ts';
import type { Api } from './api.ts';
import { issueReference, pullReference } from './identity.ts';
import type { Options } from './options.ts';
import { nextPlace, readPlace } from './pages.ts';
import { type Repositories, type Repository, repositoryPath } from './repositories.ts';
import { readUnit } from './units.ts';

type Sweep = NonNullable<Connection['sweep']>;

/** In this order nothing that is there moves: what is new is added at the end. */
const EVERYTHING = 'state=all&sort=created&direction=asc&per_page=100';

/**
 * One page of the ids of everything in a repository. Where issues are followed, one list holds both kinds, so the unit
 * of the pull requests speaks for the whole repository, and that of the issues for nothing.
 */
export function createSweep(api: Api, repositories: Repositories, { host, issues }: Options): Sweep {
  return async (unit, page, signal) => {
    const { repository, list } = readUnit(unit);
    if (list === 'issues') return { keys: [], containers: [] };
    const owner = await repositories.find(repository, signal, 'background');
    const path = `${repositoryPath(repository)}/${issues && owner.hasIssues ? 'issues' : 'pulls'}`;
    const place = readPlace(page, EVERYTHING);
    const answer = await api.get(path, { query: place.query, signal, use: 'background' });
    const next = nextPlace(api, answer, path, place);
    return {
      keys: keysOf(answer, path, host, owner),
      containers: [owner.id],
      ...(next === undefined ? {} : { next }),
    };
  };
}

const element = z.object({
  id: z.int().positive(),
  number: z.int().positive(),
  pull_request: z.unknown().optional(),
});

/** What cannot be read would look as if it were gone: then the page counts for nothing. */
function keysOf(answer: HttpAnswer, path: string, host: string, { id, name }: Repository): readonly ItemKey[] {
  const page = parseAnswer(z.array(element), readAnswer(answer, `GET ${path}`), `GET ${path}`);
  const repository = { id, full_name: name };
  const isPullList = path.endsWith('/pulls');
  return page.map((each) =>
    isPullList || each.pull_request
      ? pullReference(host, repository, each.number).key
      : issueReference(host, repository, each).key,
  );
}
