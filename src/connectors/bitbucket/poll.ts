import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { PollPage, PollPosition } from '../connector.ts';
import { readAnswer, writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, OVERLAP, timeOf } from '../kit/turns.ts';
import type { Api } from './api.ts';
import { FIELDS_OF_LIST } from './schema.ts';
import { SHAPES } from './translate.ts';

const EVERY_STATE = ['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED'];

/**
 * One page of a walk over a repository's pull requests (providers' facts §3.4).
 *
 * With a watermark: all states, what changed since the watermark and the overlap, newest change first, along the links
 * to the next page as they are given. What changes meanwhile moves to the front, so it pushes others towards pages
 * still to come: none is missed, and what moved is newer than the candidate watermark. (Oldest first would lose the
 * neighbour of each one that moves to the end.)
 *
 * Without one, the first walk: the open ones only (the closed ones of the past are a backfill's business). One that is
 * closed meanwhile leaves that list, and everything behind it moves forward, past a page that is counted. So this walk
 * counts none: oldest change first, and each page begins at the time at which the last one ended. Its watermark is the
 * time at which it began, by the provider's clock or ours, whichever is behind: what happens meanwhile belongs to the
 * next walk.
 */
export async function pollPulls(api: Api, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const path = `/repositories/${position.unit}/pullrequests`;
  const isFirstWalk = position.watermark === undefined;
  const query = position.page === undefined ? firstQuery(position) : queryOf(position.page);
  const answer = await api.get(path, query, signal);
  const { values, next } = readPage(answer, path);
  const link = next === undefined ? undefined : linkTo(api.nextQuery(next, path), query, path);
  const times = values.map((pull) => timeOf(pull, 'updated_on'));
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: writeJson({ values }),
    next: link && ((isFirstWalk ? continued(values) : undefined) ?? link),
    newest: isFirstWalk ? firstWalkStart(position, answer) : newest(times, answer),
  };
}

function firstQuery({ watermark }: PollPosition): string {
  return watermark === undefined ? openSince() : changedSince(watermark);
}

function changedSince(watermark: string): string {
  const time = bound(new Date(Date.parse(watermark) - OVERLAP).toISOString());
  return listQuery(EVERY_STATE, { q: `updated_on >= ${time}`, sort: '-updated_on' });
}

/** Beside `q`, Bitbucket does not look at `state`: what is wanted stands in both. */
function openSince(time?: string): string {
  const condition = time === undefined ? undefined : { q: `state = "OPEN" AND updated_on >= ${time}` };
  return listQuery(['OPEN'], { ...condition, sort: 'updated_on' });
}

function listQuery(states: readonly string[], rest: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(states.map((state) => ['state', state]));
  for (const [name, value] of Object.entries({ ...rest, pagelen: '50', fields: FIELDS_OF_LIST }))
    query.append(name, value);
  return query.toString();
}

/** Bitbucket's query language refuses the `Z`, and takes no quotes around a time. */
function bound(time: string): string {
  return time.replace('Z', '+00:00');
}

/** A stored page is `since:<time>`, of the first walk, or `link:<query>`. */
function queryOf(page: string): string {
  const [, kind, rest] = /^(since|link):([\x21-\x7e]{1,4000})$/.exec(page) ?? [];
  if (kind === 'link') return rest as string;
  if (kind === 'since' && isTime(rest)) return openSince(rest);
  throw new SyncError('internal', `the stored page of a walk is not one of ours: ${page.slice(0, 40)}`);
}

/** A list that links in circles would never end. A link without a page number cannot be compared with the present. */
function linkTo(next: string, present: string, path: string): string {
  const leadsBack = (pageNumber(next) ?? Number.POSITIVE_INFINITY) <= (pageNumber(present) ?? 1);
  if (next === present || leadsBack)
    throw new SyncError('answer_malformed', `GET ${path}: the link to the next page leads back`);
  return `link:${next}`;
}

function pageNumber(query: string): number | undefined {
  const text = new URLSearchParams(query).get('page') ?? '';
  return /^\d{1,6}$/.test(text) ? Number(text) : undefined;
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

interface Page {
  readonly values: readonly unknown[];
  readonly next?: unknown;
}

function readPage(answer: HttpAnswer, path: string): Page {
  const page = readAnswer(answer, `GET ${path}`) as Page | null;
  if (Array.isArray(page?.values)) return page;
  throw new SyncError('answer_malformed', `GET ${path}: the answer is not a page`, { status: answer.status });
}

function updatedOn(pull: unknown): unknown {
  return (pull as { updated_on?: unknown } | null | undefined)?.updated_on;
}
