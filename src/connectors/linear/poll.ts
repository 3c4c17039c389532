import { z } from 'zod';
import { workItemKey } from '../../model/item.ts';
import type { HistoryPage, HistoryPosition, PollPage, PollPosition, SweepPage } from '../connector.ts';
import type { Use } from '../kit/budget.ts';
import { writeJson } from '../kit/json.ts';
import { firstWalkStart, newest, OVERLAP, timeOf } from '../kit/turns.ts';
import { type Api, cursorAfter, pageOf, readCursor } from './api.ts';
import { ISSUE_IDS, ISSUES } from './queries.ts';
import * as schema from './schema.ts';
import { readTeam, teamIs } from './teams.ts';
import { SHAPES } from './translate.ts';

/** With their labels about 3,000 points of the 10,000 that one request may cost. */
const PAGE = 50;
const IDS_AT_ONCE = 250;
/** States that an issue leaves no more of itself. */
const DONE = ['completed', 'canceled', 'duplicate'];

/**
 * One page of a walk over a team's issues, the archived ones and those in the trash among them. A cursor names the issue
 * that it stands behind, so what changes meanwhile hides nothing.
 *
 * With a watermark: what was changed since then less the overlap. Without one, the first walk: issues that are not done,
 * in the order they were created in, and what changed since the walk began, so that one which is done meanwhile does not
 * leave the list under the cursor. The watermark then starts no earlier than the walk.
 */
export async function pollIssues(api: Api, position: PollPosition, signal: AbortSignal): Promise<PollPage> {
  const isFirstWalk = position.watermark === undefined;
  const filter = isFirstWalk ? notDone(position) : changed(position.unit, Date.parse(position.watermark) - OVERLAP);
  const found = await page(api, filter, isFirstWalk ? 'createdAt' : 'updatedAt', position.page, 'poll', signal);
  const times = found.nodes.map((node) => timeOf(node, 'updatedAt'));
  return {
    outcome: 'page',
    event: SHAPES.list,
    body: writeJson(found.nodes),
    next: found.next,
    newest: isFirstWalk ? firstWalkStart(position, found.answer) : newest(times, found.answer),
  };
}

function changed(unit: string, since: number): object {
  return { team: teamIs(unit), updatedAt: { gte: new Date(since).toISOString() } };
}

function notDone({ unit, startedAt }: PollPosition): object {
  const began = new Date(Date.parse(startedAt) - OVERLAP).toISOString();
  return { team: teamIs(unit), or: [{ state: { type: { nin: DONE } } }, { updatedAt: { gte: began } }] };
}

const issues = z.object({ issues: pageOf(z.unknown()) });

async function page(
  api: Api,
  filter: object,
  orderBy: 'createdAt' | 'updatedAt',
  after: string | undefined,
  use: Use,
  signal: AbortSignal,
) {
  const variables = { filter, orderBy, first: PAGE, ...cursor(after) };
  const { data, answer } = await api.ask({ document: ISSUES, variables, data: issues, use, keep: true, signal });
  return { nodes: data.issues.nodes, next: cursorAfter(data.issues.pageInfo), answer };
}

function cursor(after: string | undefined): { readonly after?: string | undefined } {
  return after === undefined ? {} : { after: readCursor(after) };
}

/** One page of everything that was changed since a time, newest change first. */
export async function historyOfIssues(api: Api, position: HistoryPosition, signal: AbortSignal): Promise<HistoryPage> {
  const { unit, since } = position;
  const filter = since === undefined ? { team: teamIs(unit) } : changed(unit, Date.parse(since));
  const { nodes, next } = await page(api, filter, 'updatedAt', position.page, 'background', signal);
  return { event: SHAPES.list, body: writeJson(nodes), ...(next === undefined ? {} : { next }) };
}

const ids = z.object({ issues: pageOf(z.object({ id: schema.id, trashed: z.boolean().nullish() })) });

/** One page of the ids of all issues of a team. Those in the trash are left out: a fetch then tells that they are gone. */
export async function sweepIssues(
  api: Api,
  organizationId: string,
  unit: string,
  after: string | undefined,
  signal: AbortSignal,
): Promise<SweepPage> {
  const { id: teamId } = await readTeam(api, unit, signal);
  const variables = { filter: { team: teamIs(teamId) }, first: IDS_AT_ONCE, ...cursor(after) };
  const { data } = await api.ask({ document: ISSUE_IDS, variables, data: ids, use: 'background', signal });
  const kept = data.issues.nodes.filter(({ trashed }) => trashed !== true);
  const next = cursorAfter(data.issues.pageInfo);
  return {
    keys: kept.map(({ id }) => workItemKey('linear', organizationId, id)),
    containers: [teamId],
    ...(next === undefined ? {} : { next }),
  };
}
