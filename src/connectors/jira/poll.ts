import { z } from 'zod';
import { workItemKey } from '../../model/item.ts';
import type { HistoryPage, HistoryPosition, PollPage, PollPosition, SweepPage } from '../connector.ts';
import { parseAnswer, readable, writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, OVERLAP } from '../kit/turns.ts';
import type { Api } from './api.ts';
import { readProject } from './projects.ts';
import * as schema from './schema.ts';
import { instant, projectIs, search } from './search.ts';
import { SHAPES } from './translate.ts';

const PAGE = 100;
/** Jira gives so many at once where nothing but ids is asked for. */
const IDS_AT_ONCE = 5_000;

/**
 * One page of a walk over a project's issues.
 *
 * With a watermark: what was changed since then less the overlap, newest change first. What changes meanwhile moves to
 * the front and hides nothing behind it.
 *
 * Without one, the first walk: issues that are not done, in the order they were created in, which never changes. One that
 * is done during the walk must not leave the list, or another would slip onto a page that was read: so what changed since
 * the walk began is in it too. The watermark then starts no earlier than the walk.
 */
export async function pollIssues(api: Api, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const isFirstWalk = position.watermark === undefined;
  const jql = isFirstWalk ? notDone(position) : changed(position.unit, Date.parse(position.watermark) - OVERLAP);
  const wanted = { jql, fields: schema.FIELDS, size: PAGE, page: position.page };
  const { issues, next, answer } = await search(api, wanted, signal);
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: writeJson(issues.map(schema.slim)),
    next,
    newest: isFirstWalk ? firstWalkStart(position, answer) : newest(issues.map(updatedAt), answer),
  };
}

function changed(unit: string, since: number): string {
  return `${projectIs(unit)} AND updated >= ${instant(since)} ORDER BY updated DESC`;
}

function notDone({ unit, startedAt }: PollPosition): string {
  const began = instant(Date.parse(startedAt) - OVERLAP);
  return `${projectIs(unit)} AND (statusCategory != Done OR updated >= ${began}) ORDER BY created ASC`;
}

const CHANGED_AT = z.object({ fields: z.object({ updated: z.string() }) });

/** Epoch milliseconds; NaN where it cannot be read: such an element is kept, for `translate` to judge. */
function updatedAt(issue: unknown): number {
  const data = readable(CHANGED_AT, issue);
  return data ? Date.parse(data.fields.updated.replace(/([+-]\d\d)(\d\d)$/, '$1:$2')) : Number.NaN;
}

/** One page of everything that was changed since a time, newest change first. */
export async function historyOfIssues(api: Api, position: HistoryPosition, signal: AbortSignal): Promise<HistoryPage> {
  const { unit, since, page } = position;
  const jql = since === undefined ? `${projectIs(unit)} ORDER BY updated DESC` : changed(unit, Date.parse(since));
  const found = await search(api, { jql, fields: schema.FIELDS, size: PAGE, page }, signal);
  const body = writeJson(found.issues.map(schema.slim));
  const total = page === undefined ? await count(api, jql, signal) : undefined;
  return {
    event: SHAPES.list,
    body,
    ...(found.next === undefined ? {} : { next: found.next }),
    ...(total === undefined ? {} : { total }),
  };
}

const counted = z.object({ count: z.int().min(0) });

/** About how many a query finds; for a progress bar, so nothing depends on it. */
async function count(api: Api, jql: string, signal: AbortSignal): Promise<number | undefined> {
  const answer = await api.send('POST', '/rest/api/3/search/approximate-count', { jql }, signal);
  return readable(counted, answer)?.count;
}

/** One page of the ids of all issues of a project, in the order they were created in. */
export async function sweepIssues(
  api: Api,
  cloudId: string,
  unit: string,
  page: string | undefined,
  signal: AbortSignal,
): Promise<SweepPage> {
  const project = await readProject(api, unit, signal);
  const jql = `${projectIs(unit)} ORDER BY created ASC`;
  const { issues, next } = await search(api, { jql, fields: 'id', size: IDS_AT_ONCE, page }, signal);
  const keys = issues.map((issue) => {
    const data = parseAnswer(z.object({ id: schema.id }), issue, `the issues of ${unit}`);
    return workItemKey('jira', cloudId, data.id);
  });
  return { keys, containers: [project.id], ...(next === undefined ? {} : { next }) };
}
