import type { Connection } from '../connector.ts';
import { readList, writeJson } from '../kit/json.ts';
import { timeOf } from '../kit/turns.ts';
import type { Api } from './api.ts';
import { nextPlace, readPlace } from './pages.ts';
import { EVERYTHING, isBefore, isBeyond, issuePage, LISTED_ISSUE, whole } from './poll.ts';
import { type Repositories, repositoryPath } from './repositories.ts';
import { KEPT, slim } from './schema.ts';
import { SHAPES } from './translate.ts';
import { readUnit } from './units.ts';

type History = NonNullable<Connection['history']>;
type Position = Parameters<History>[0];

const PAGE = 100;

/**
 * One page of everything that was changed since a time, newest change first, along the links as they are given. What
 * changes meanwhile moves to the front and pushes others to pages still to come: it may be seen twice, and none is missed.
 */
export function createHistory(api: Api, repositories: Repositories): History {
  return (position, signal) => {
    const { list } = readUnit(position.unit);
    return list === 'pulls' ? pulls(api, position, signal) : issues(api, repositories, position, signal);
  };
}

async function pulls(api: Api, position: Position, signal: AbortSignal) {
  const path = `${repositoryPath(readUnit(position.unit).repository)}/pulls`;
  const place = readPlace(position.page, EVERYTHING);
  const answer = await api.get(path, { query: place.query, signal, use: 'background', keep: KEPT });
  const found = readList(answer, `GET ${path}`);
  const times = found.map((pull) => timeOf(pull, 'updated_at'));
  const since = position.since === undefined ? undefined : Date.parse(position.since);
  const next = isBeyond(times, since) ? undefined : nextPlace(api, answer, path, place);
  return {
    event: SHAPES.list,
    body: writeJson(found.filter((_, at) => !isBefore(times[at], since)).map(slim)),
    ...(next === undefined ? {} : { next }),
    ...totalOf(api, answer, path, position, found.length),
  };
}

async function issues(api: Api, repositories: Repositories, position: Position, signal: AbortSignal) {
  const { repository } = readUnit(position.unit);
  const owner = await repositories.find(repository, signal, 'background');
  if (!owner.hasIssues) return issuePage(owner, []);
  const path = `${repositoryPath(repository)}/issues`;
  const since = position.since === undefined ? '' : `&since=${whole(Date.parse(position.since))}`;
  const place = readPlace(position.page, EVERYTHING + since);
  const answer = await api.get(path, { query: place.query, signal, use: 'background', keep: LISTED_ISSUE });
  const next = nextPlace(api, answer, path, place);
  return { ...issuePage(owner, readList(answer, `GET ${path}`)), ...(next === undefined ? {} : { next }) };
}

/** Only pages are counted, and only of the whole list: the last one may be shorter than told here. */
function totalOf(api: Api, answer: Parameters<Api['linkedPage']>[0], path: string, position: Position, length: number) {
  if (position.since !== undefined || position.page !== undefined) return {};
  const last = api.linkedPage(answer, 'last', path);
  return { total: last === undefined ? length : last * PAGE };
}
