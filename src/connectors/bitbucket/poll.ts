import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { HistoryPage, HistoryPosition, PollPage, PollPosition, SweepPage } from '../connector.ts';
import { parseAnswer, writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, OVERLAP, timeOf } from '../kit/turns.ts';
import type { Api } from './api.ts';
import { linkedQuery, linkTo, readPage } from './pages.ts';
import { repositoryPath } from './repositories.ts';
import { FIELDS_OF_LIST, uuid } from './schema.ts';
import { keyOf, SHAPES } from './translate.ts';

const EVERY_STATE = ['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED'];

/**
 * One page of a walk over a repository's pull requests (BB1).
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
  const path = `${repositoryPath(position.unit)}/pullrequests`;
  const isFirstWalk = position.watermark === undefined;
  const query = position.page === undefined ? firstQuery(position) : queryOf(position.page);
  const answer = await api.get(path, { query, signal, use: 'poll', keep: true });
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

/**
 * One page of a backfill: every state, newest change first, along the links. What changes meanwhile moves to the front and
 * belongs to polls and webhooks; it pushes others towards pages still to come, so none is missed.
 */
export async function readHistory(api: Api, position: HistoryPosition, signal: AbortSignal): Promise<HistoryPage> {
  const path = `${repositoryPath(position.unit)}/pullrequests`;
  const query = position.page === undefined ? historySince(position.since) : queryOf(position.page);
  const answer = await api.get(path, { query, signal, use: 'background', keep: true });
  const { values, next, size } = readPage(answer, path);
  return {
    event: SHAPES.list,
    body: writeJson({ values }),
    ...(next !== undefined && { next: linkTo(api.nextQuery(next, path), query, path) }),
    ...(typeof size === 'number' && { total: size }),
  };
}

function historySince(time: string | undefined): string {
  const condition = time === undefined ? undefined : { q: since(Date.parse(time)) };
  return listQuery(EVERY_STATE, { ...condition, sort: '-updated_on', fields: `size,${FIELDS_OF_LIST}` });
}

function firstQuery({ watermark }: PollPosition): string {
  return watermark === undefined ? openSince() : changedSince(watermark);
}

function changedSince(watermark: string): string {
  return listQuery(EVERY_STATE, { q: since(Date.parse(watermark) - OVERLAP), sort: '-updated_on' });
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
function since(time: number): string {
  return `updated_on >= ${new Date(time).toISOString().replace('Z', '+00:00')}`;
}

/** A stored page is `since:<time>`, of the first walk, or `link:<query>`. */
function queryOf(page: string): string {
  const linked = linkedQuery(page);
  if (linked !== undefined) return linked;
  const time = /^since:(.{1,40})$/.exec(page)?.[1];
  if (isTime(time)) return openSince(time);
  throw new SyncError('internal', `the stored page of a walk is not one of ours: ${page.slice(0, 40)}`);
}

const swept = z.object({ id: z.int().positive(), destination: z.object({ repository: z.object({ uuid }) }) });

/**
 * One page of the ids of everything there is, oldest first: none can be deleted, so none moves towards a page that was
 * read. Throws for an element that cannot be read: what is not seen would count as gone.
 */
export async function sweepPulls(
  api: Api,
  unit: string,
  page: string | undefined,
  signal: AbortSignal,
): Promise<SweepPage> {
  const path = `${repositoryPath(unit)}/pullrequests`;
  const query = page === undefined ? SWEEP : queryOf(page);
  const answer = await api.get(path, { query, signal, use: 'background', keep: true });
  const { values, next } = readPage(answer, path);
  const found = parseAnswer(z.array(swept), values, `GET ${path}`);
  return {
    keys: found.map(({ id, destination }) => keyOf(destination.repository.uuid, id)),
    containers: [...new Set(found.map(({ destination }) => destination.repository.uuid))],
    ...(next !== undefined && { next: linkTo(api.nextQuery(next, path), query, path) }),
  };
}

const SWEEP = listQuery(EVERY_STATE, { sort: 'id', fields: 'next,values.id,values.destination.repository.uuid' });

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
