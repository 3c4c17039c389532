import { SyncError } from '../../errors/sync-error.ts';
import { workItemKey } from '../../model/item.ts';
import type { HistoryPage, HistoryPosition, PollPage, PollPosition, SweepPage } from '../connector.ts';
import { parseAnswer, writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, OVERLAP, timeOf } from '../kit/turns.ts';
import type { Api } from './api.ts';
import { listIssues } from './listing.ts';
import { hostOf, type Options } from './options.ts';
import { readProject } from './projects.ts';
import * as schema from './schema.ts';
import type { Statuses } from './statuses.ts';
import { isHidden, SHAPES } from './translate.ts';

/** Redmine lists open issues only, unless it is told otherwise. */
const OPEN = { status_id: 'open' };
const ALL = { status_id: '*' };

/**
 * One page of a walk over a project's issues, in the order of their numbers.
 *
 * With a watermark: what was changed since then less the overlap. An issue that is changed during the walk may lie behind it
 * already, so the watermark moves no further than the time at which the walk began; the next walk brings that change.
 *
 * Without one, the first walk: the open ones. One that is closed meanwhile leaves the list and hides no other. The watermark
 * starts no earlier than the walk.
 */
export async function pollIssues(
  api: Api,
  statuses: Statuses,
  position: PollPosition,
  signal: AbortSignal,
): Promise<PollPage> {
  const { unit, watermark } = position;
  const place = readPlace(position.page);
  const filter = watermark === undefined ? OPEN : changedSince(Date.parse(watermark) - OVERLAP);
  const { issues, next, answer } = await listIssues(api, { unit, filter, order: 'up', from: place?.from }, signal);
  const began = place?.began ?? Date.parse(firstWalkStart({ ...position, page: undefined }, answer) ?? '');
  const seen = newest(
    issues.map((issue) => Math.min(timeOf(issue, 'updated_on'), began)),
    answer,
  );
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: await bodyOf(statuses, issues, signal),
    ...(next === undefined ? {} : { next: `${next}@${began}` }),
    newest: watermark === undefined ? firstWalkStart(position, answer) : seen,
  };
}

/** A time as the filter takes it: in UTC, in whole seconds. */
function changedSince(time: number): Readonly<Record<string, string>> {
  return { ...ALL, updated_on: `>=${new Date(time).toISOString().replace(/\.\d+Z$/, 'Z')}` };
}

async function bodyOf(statuses: Statuses, issues: readonly unknown[], signal: AbortSignal): Promise<Buffer> {
  return writeJson({ statuses: await statuses.beside(issues, signal), issues: issues.map(schema.slim) });
}

const PLACE = /^([1-9]\d{0,15})(?:@(\d{1,15}))?$/;

/** Where a walk goes on, and when it began, epoch milliseconds. */
function readPlace(page: string | undefined): { from: number; began: number | undefined } | undefined {
  if (page === undefined) return undefined;
  const [, from, began] = PLACE.exec(page) ?? [];
  if (from === undefined)
    throw new SyncError('internal', `the stored page of a walk is not one of ours: ${page.slice(0, 40)}`);
  return { from: Number(from), began: began === undefined ? undefined : Number(began) };
}

/** One page of everything that was changed since a time, newest issue first. */
export async function historyOfIssues(
  api: Api,
  statuses: Statuses,
  { unit, since, page }: HistoryPosition,
  signal: AbortSignal,
): Promise<HistoryPage> {
  const filter = since === undefined ? ALL : changedSince(Date.parse(since));
  const found = await listIssues(api, { unit, filter, order: 'down', from: readPlace(page)?.from }, signal);
  return {
    event: SHAPES.list,
    body: await bodyOf(statuses, found.issues, signal),
    ...(found.next === undefined || found.next < 1 ? {} : { next: String(found.next) }),
    ...(page === undefined ? { total: found.total } : {}),
  };
}

/** One page of the numbers of all issues of a project that are shown. */
export async function sweepIssues(
  api: Api,
  options: Options,
  { unit, page }: { readonly unit: string; readonly page: string | undefined },
  signal: AbortSignal,
): Promise<SweepPage> {
  const project = await readProject(api, unit, signal);
  const from = readPlace(page)?.from;
  const { issues, ids, next } = await listIssues(api, { unit, filter: ALL, order: 'up', from }, signal);
  const what = `the issues of ${unit}`;
  const shown = ids.filter((_id, at) => !isHidden(parseAnswer(schema.privacy, issues[at], what), options));
  const keys = shown.map((id) => workItemKey('redmine', hostOf(options), String(id)));
  return { keys, containers: [String(project.id)], ...(next === undefined ? {} : { next: String(next) }) };
}
