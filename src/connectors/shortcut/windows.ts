import { SyncError } from '../../model/errors/sync-error.ts';
import type { Selection } from '../kit/walk.ts';

const DAY = 24 * 60 * 60_000;
/** Before it there was no Shortcut; older times of creation come from imports. */
const FIRST_YEAR = 2015;

interface Window {
  /** Parts of the query; both bounds are inclusive. */
  readonly query: Readonly<Record<string, unknown>>;
  /** Names the next page; undefined on the last one. */
  readonly next: string | undefined;
}

/**
 * Shortcut answers a query with all of its stories at once (SH3), so pages are windows of time. For what was changed: a day of
 * changes each, the newest last and without an end, so that what changes meanwhile is still to come. For everything else: a
 * year of creation each, from the present one back, since the time of creation never moves. Neighbours share their bound: what is
 * told twice costs nothing, and no fraction of a second lies between them.
 *
 * @param now epoch milliseconds
 */
export function windowOf(selection: Selection, page: string | undefined, now: number): Window {
  if (selection.items === 'changed' && selection.way === 'poll' && selection.since !== undefined)
    return changes(selection.since, page, now);
  const { query, next } = creations(page, now);
  return { query: { ...query, ...filterOf(selection) }, next };
}

function changes(since: number, page: string | undefined, now: number): Window {
  const start = page === undefined ? since : numberOf(page);
  const end = start + DAY;
  const updated_at_start = new Date(start).toISOString();
  if (end >= now) return { query: { updated_at_start }, next: undefined };
  const updated_at_end = new Date(end).toISOString();
  return { query: { updated_at_start, updated_at_end }, next: String(end) };
}

function creations(page: string | undefined, now: number): Window {
  const present = new Date(now).getUTCFullYear();
  const year = page === undefined ? present : numberOf(page);
  const isFirst = year <= FIRST_YEAR;
  const from = { created_at_start: new Date(Date.UTC(year, 0, 1)).toISOString() };
  const until = { created_at_end: new Date(Date.UTC(year + 1, 0, 1)).toISOString() };
  const query = { ...(!isFirst && from), ...(page !== undefined && until) };
  return { query, next: isFirst ? undefined : String(year - 1) };
}

function filterOf(selection: Selection): Readonly<Record<string, unknown>> {
  if (selection.items === 'open') return { archived: false, workflow_state_types: ['backlog', 'unstarted', 'started'] };
  const since = selection.items === 'changed' ? selection.since : undefined;
  return since === undefined ? {} : { updated_at_start: new Date(since).toISOString() };
}

function numberOf(page: string): number {
  if (/^\d{4,14}$/.test(page)) return Number(page);
  throw new SyncError('internal', `the stored page of a walk is invalid: ${page.slice(0, 40)}`);
}
