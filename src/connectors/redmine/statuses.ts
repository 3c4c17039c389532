import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import { parseAnswer, readable } from '../kit/json.ts';
import type { Api } from './api.ts';
import * as schema from './schema.ts';

const PATH = '/issue_statuses.json';
const answered = z.object({ issue_statuses: z.array(schema.status) });
/** Administrators change them seldom. */
const REFRESH_AFTER = 12 * 60_000;

/** The statuses of a Redmine, kept between cycles. */
export interface Statuses {
  /** What must stand beside these issues to understand them; undefined where they tell themselves whether they are closed. */
  beside(issues: readonly unknown[], signal: AbortSignal): Promise<readonly schema.Status[] | undefined>;
}

const untold = z.object({ status: z.object({ id: z.int(), is_closed: z.undefined().optional() }) });

export function createStatuses(api: Api, clock: Clock): Statuses {
  let held: { list: readonly schema.Status[]; until: number } | undefined;
  return {
    async beside(issues, signal) {
      const wanted = issues.flatMap((issue) => readable(untold, issue)?.status.id ?? []);
      if (wanted.length === 0) return undefined;
      const { list, until } = held ?? { list: [], until: 0 };
      const isKnown = wanted.every((id) => list.some((status) => status.id === id));
      if (isKnown && clock.monotonic() < until) return list;
      held = { list: await readStatuses(api, signal), until: clock.monotonic() + REFRESH_AFTER };
      return held.list;
    },
  };
}

export async function readStatuses(api: Api, signal: AbortSignal): Promise<readonly schema.Status[]> {
  const data = parseAnswer(answered, (await api.get(PATH, {}, signal)).content, `GET ${PATH}`);
  return data.issue_statuses;
}
