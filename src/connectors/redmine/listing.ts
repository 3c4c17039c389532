import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { Shape } from '../../lib/shape.ts';
import { parseAnswer } from '../kit/json.ts';
import { type Api, malformed } from './api.ts';
import * as schema from './schema.ts';

const PATH = '/issues.json';
/** Redmine gives no more at once. */
const PAGE = 100;

/** What is looked at of a page. */
const KEPT: Shape = { issues: schema.KEPT, total_count: true };

const page = z.object({ issues: z.array(z.unknown()), total_count: z.int().min(0) });

interface Wanted {
  readonly unit: string;
  readonly filter: Readonly<Record<string, string>>;
  /** By number, which never changes. */
  readonly order: 'up' | 'down';
  /** The number to begin at; absent on the first page. */
  readonly from?: number | undefined;
}

interface Found {
  readonly issues: readonly unknown[];
  readonly ids: readonly number[];
  /** The number at which the next page begins; absent on the last one. */
  readonly next: number | undefined;
  /** How many there are from here on. */
  readonly total: number;
  readonly answer: HttpAnswer;
}

/**
 * One page of a project's issues, without those of its subprojects, in the order of their numbers. The next page begins at a
 * number and not at an offset: whatever changes, closes or is deleted meanwhile moves no other issue onto a page that was read.
 */
export async function listIssues(api: Api, wanted: Wanted, signal: AbortSignal): Promise<Found> {
  const { unit, filter, order, from } = wanted;
  const query = {
    project_id: unit,
    subproject_id: '!*',
    ...filter,
    sort: order === 'up' ? 'id' : 'id:desc',
    limit: String(PAGE),
    ...(from === undefined ? {} : { issue_id: `${order === 'up' ? '>=' : '<='}${from}` }),
  };
  const { content, answer } = await api.get(PATH, query, signal, KEPT);
  const data = parseAnswer(page, content, `GET ${PATH}`);
  const ids = data.issues.map(idOf);
  requireOrder(ids, order, from);
  const last = ids.at(-1);
  if (last === undefined && data.total_count > 0) throw malformed(`GET ${PATH}: a page is empty that should not be`);
  const next = last === undefined || data.total_count <= ids.length ? undefined : last + (order === 'up' ? 1 : -1);
  return { issues: data.issues, ids, next, total: data.total_count, answer };
}

function idOf(issue: unknown): number {
  const data = parseAnswer(z.object({ id: schema.id }), issue, `GET ${PATH}`);
  return data.id;
}

/** A Redmine that does not know one of the filters leaves it out, and the walk would turn in circles. */
function requireOrder(ids: readonly number[], order: Wanted['order'], from: number | undefined): void {
  const sign = order === 'up' ? 1 : -1;
  let least = from === undefined ? Number.NEGATIVE_INFINITY : from * sign;
  for (const id of ids) {
    if (id * sign < least)
      throw new SyncError('answer_malformed', `GET ${PATH}: issue ${id} is not where its number belongs`, {
        hint: 'Redmine lists issues from a number on since version 3.4; an older one cannot be read.',
      });
    least = id * sign + 1;
  }
}
