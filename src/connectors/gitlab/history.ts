import type { Connection } from '../connector.ts';
import { parseAnswer } from '../kit/json.ts';
import { nextTurn, readTurn } from '../kit/turns.ts';
import { isHidden, issueKey } from './issues.ts';
import type { Lists } from './lists.ts';
import { mergeRequestKey } from './merge-requests.ts';
import type { Options } from './options.ts';
import type { Projects } from './projects.ts';
import { identities } from './schema.ts';
import { readUnit } from './units.ts';

type History = NonNullable<Connection['history']>;
type Sweep = NonNullable<Connection['sweep']>;

const EVERYTHING = 'state=all&scope=all&per_page=100';

/** One page of a backfill. What changes meanwhile moves to the front, and pushes others towards pages still to come. */
export async function readHistory(
  lists: Lists,
  { unit, since, page }: Parameters<History>[0],
  signal: AbortSignal,
): ReturnType<History> {
  const from = since === undefined ? '' : `&updated_after=${encodeURIComponent(since)}`;
  const turn = readTurn(page);
  const query = `${EVERYTHING}&order_by=updated_at&sort=desc${from}`;
  const read = await lists.read({ unit, query, page: turn?.page, use: 'background' }, signal);
  const { event, body, pageOf, what, answer } = read;
  const next = nextTurn({ turn, pageOf, what });
  const total = Number(answer.headers['x-total'] || Number.NaN);
  return { event, body, ...(next && { next }), ...(Number.isInteger(total) && { total }) };
}

/**
 * One page of everything that exists in a unit, oldest first: what is new comes last. One deleted meanwhile pulls a
 * neighbour onto a page that was read already; missing here only means that it is fetched.
 */
export async function sweepUnit(
  lists: Lists,
  projects: Projects,
  options: Options,
  { unit, page }: { readonly unit: string; readonly page: string | undefined },
  signal: AbortSignal,
): ReturnType<Sweep> {
  const { list, kind, name } = readUnit(unit);
  const turn = readTurn(page);
  const query = `${EVERYTHING}&order_by=created_at&sort=asc`;
  const { found, pageOf, what } = await lists.read({ unit, query, page: turn?.page, use: 'background' }, signal);
  const { host } = options;
  // One that cannot be told would look gone.
  const shown = parseAnswer(identities, found, what).filter((each) => list !== 'issues' || !isHidden(each, options));
  const keys = shown.map(({ id, project_id, iid }) => {
    return list === 'issues' ? issueKey(host, id) : mergeRequestKey(host, String(project_id), String(iid));
  });
  const containers =
    kind === 'group'
      ? (await projects.followed(name, signal)).map(({ id }) => id)
      : [await projects.numberOf(name, signal)];
  const next = nextTurn({ turn, pageOf, what });
  return { keys, containers, ...(next && { next }) };
}
