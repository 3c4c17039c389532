import { z } from 'zod';
import { workItemKey } from '../../model/item.ts';
import type { HistoryPage, HistoryPosition, PollPage, PollPosition, SweepPage } from '../connector.ts';
import { parseAnswer, writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, OVERLAP, timeOf } from '../kit/turns.ts';
import type { Api } from './api.ts';
import type { Options } from './options.ts';
import type { Directory } from './projects.ts';
import * as schema from './schema.ts';
import { SHAPES } from './translate.ts';

/** Before the name of a project: all its issues, walked seldom. */
const EVERYTHING = 'all:';
/** Resolving and assigning move no time, so what no webhook told is found by reading everything again. */
const EVERYTHING_AFTER = 6 * 60 * 60_000;

/** What lists need beside the place. */
export interface Lists {
  readonly api: Api;
  readonly directory: Directory;
  readonly options: Options;
}

/** Each project is walked twice: what was seen lately, and at long intervals everything. */
export async function unitsOf(directory: Directory, signal: AbortSignal): Promise<readonly string[]> {
  const projects = await directory.projects(signal);
  return [...projects, ...projects.map((project) => EVERYTHING + project)];
}

interface Wanted {
  readonly project: string;
  /** Empty for all: without one Sentry lists unresolved issues only. */
  readonly query: string;
  /** Last seen first, or created last first: the second order never changes. */
  readonly sort: 'date' | 'new';
  readonly cursor: string | undefined;
}

async function listIssues({ api, directory, options }: Lists, wanted: Wanted, signal: AbortSignal) {
  const id = await directory.numberOf(wanted.project, signal);
  const query = { project: id, query: wanted.query, sort: wanted.sort, limit: '100', collapse: 'stats' };
  return api.page(`/organizations/${options.organization}/issues/`, query, wanted.cursor, signal, schema.KEPT);
}

/**
 * One page of a walk over a project's issues, last seen first, until a page reaches back beyond the watermark and the overlap. What is
 * seen meanwhile moves to the front: it hides nothing, and is newer than the watermark that the walk will set.
 *
 * Without a watermark, the first walk: the unresolved ones. The watermark then starts no earlier than the walk.
 */
export function pollIssues(lists: Lists, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  return position.unit.startsWith(EVERYTHING)
    ? pollEverything(lists, position, signal)
    : pollSeen(lists, position, signal);
}

async function pollSeen(lists: Lists, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const { unit: project, watermark, page: cursor } = position;
  const isFirstWalk = watermark === undefined;
  const query = isFirstWalk ? 'is:unresolved' : '';
  const page = await listIssues(lists, { project, query, sort: 'date', cursor }, signal);
  const times = page.found.map((issue) => timeOf(issue, 'lastSeen'));
  const since = isFirstWalk ? Number.NEGATIVE_INFINITY : Date.parse(watermark) - OVERLAP;
  return {
    ...deliveryOf(page.found, times, since),
    outcome: 'page',
    ...nextOf(page.next, times, since),
    newest: isFirstWalk ? firstWalkStart(position, page.answer) : newest(times, page.answer),
  };
}

/** The watermark is when the last such walk began. */
async function pollEverything(lists: Lists, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const { unit, watermark, startedAt, page: cursor } = position;
  const isDue = watermark === undefined || Date.parse(startedAt) - Date.parse(watermark) >= EVERYTHING_AFTER;
  if (cursor === undefined && !isDue) return { outcome: 'unchanged' };
  const project = unit.slice(EVERYTHING.length);
  const { found, next, answer } = await listIssues(lists, { project, query: '', sort: 'new', cursor }, signal);
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: writeJson(found.map(schema.slim)),
    ...(next === undefined ? {} : { next }),
    newest: firstWalkStart(position, answer),
  };
}

/** What was not seen since then is left out; a time that cannot be read is kept, for `translate` to judge. */
function deliveryOf(found: readonly unknown[], times: readonly number[], since: number) {
  const kept = found.filter((_, at) => !((times[at] as number) < since));
  return { event: SHAPES.list, body: writeJson(kept.map(schema.slim)) };
}

/** The list is ordered, so its last element tells. */
function nextOf(next: string | undefined, times: readonly number[], since: number): { next?: string } {
  return next === undefined || (times.at(-1) ?? Number.NaN) < since ? {} : { next };
}

/** One page of everything that was seen since a time, last seen first. The second unit of a project adds nothing to it. */
export async function historyOfIssues(
  lists: Lists,
  { unit: project, since, page: cursor }: HistoryPosition,
  signal: AbortSignal,
): Promise<HistoryPage> {
  if (project.startsWith(EVERYTHING)) return { event: SHAPES.list, body: writeJson([]) };
  const { found, next } = await listIssues(lists, { project, query: '', sort: 'date', cursor }, signal);
  const times = found.map((issue) => timeOf(issue, 'lastSeen'));
  const earliest = since === undefined ? Number.NEGATIVE_INFINITY : Date.parse(since);
  return { ...deliveryOf(found, times, earliest), ...nextOf(next, times, earliest) };
}

/** One page of the ids of all issues of a project. The second unit of a project speaks for nothing. */
export async function sweepIssues(
  lists: Lists,
  { unit: project, page: cursor }: { readonly unit: string; readonly page: string | undefined },
  signal: AbortSignal,
): Promise<SweepPage> {
  if (project.startsWith(EVERYTHING)) return { keys: [], containers: [] };
  const id = await lists.directory.numberOf(project, signal);
  const { found, next } = await listIssues(lists, { project, query: '', sort: 'new', cursor }, signal);
  const data = parseAnswer(z.array(z.object({ id: schema.id })), found, `the issues of ${project}`);
  const keys = data.map((issue) => workItemKey('sentry', lists.options.host, issue.id));
  return { keys, containers: [id], ...(next === undefined ? {} : { next }) };
}
