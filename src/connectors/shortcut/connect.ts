import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import { plainComment } from '../../model/notice.ts';
import type { ConnectionDeps } from '../connector.ts';
import { upsertComment } from '../kit/comments.ts';
import { findingsOf } from '../kit/findings.ts';
import { type Locator, mustCheckScope } from '../kit/items.ts';
import { isNamed, UUID } from '../kit/payload.ts';
import { onOneLine, type Refusals } from '../kit/refusal.ts';
import { createRest } from '../kit/rest.ts';
import type { TrackerSource } from '../kit/tracker.ts';
import type { Selection } from '../kit/walk.ts';
import { baseOf, type Options } from './options.ts';
import * as schema from './schema.ts';

const QUERY = '/stories/search';

const refusals: Refusals = {
  hints: { 401: 'Set token to an API token of a member: Settings → Your Account → API Tokens.' },
};

export function connect(options: Options, deps: ConnectionDeps): TrackerSource<schema.Team> {
  const headers = { 'shortcut-token': options.token };
  const api = createRest({ target: 'shortcut', base: baseOf(options), headers, refusals }, deps);
  const pathOf = ({ id }: Pick<Locator, 'id'>) => `/stories/${id}`;
  const me = async (signal: AbortSignal) => (await api.read(schema.member, '/member', {}, signal)).content;
  const teams = async (signal: AbortSignal) => (await api.read(z.array(schema.team), '/groups', {}, signal)).content;

  async function team(unit: string, signal: AbortSignal): Promise<schema.Team> {
    if (UUID.test(unit)) return (await api.read(schema.team, `/groups/${unit}`, {}, signal)).content;
    const found = (await teams(signal)).find(({ mention_name: name }) => name.toLowerCase() === unit);
    if (found) return found;
    throw new SyncError('not_found', `the token can see no team ${unit}`);
  }

  const list: TrackerSource<schema.Team>['list'] = async ({ unit, selection, page }, signal) => {
    const group_id = UUID.test(unit) ? unit : (await team(unit, signal)).id;
    const { query, next } = windowOf(selection, page, deps.clock.now());
    const question = { group_id, includes_description: selection.items !== 'ids', ...query };
    const { content, answer } = await api.search(schema.page, QUERY, question, signal, schema.KEPT);
    return { found: content.map(schema.slim), next, answer, isWindow: true };
  };

  return {
    containers: teams,
    container: team,
    list,
    /** One that lost its team stays with the one that it had; one that never had any is not read. */
    async item(locator, signal) {
      const { content } = await api.read(schema.aStory, pathOf(locator), {}, signal, schema.KEPT);
      const group_id = content.group_id ?? locator.container;
      if (group_id === undefined) return { isGone: false };
      const story = { ...(schema.slim(content) as object), group_id };
      return { found: mustCheckScope(locator) ? { story, team: await team(group_id, signal) } : { story } };
    },
    about: async (signal) => ({
      first: await findingsOf('credential', async () => {
        const { name } = await me(signal);
        return [{ level: 'ok', subject: 'credential', message: `of ${onOneLine(name, 100)}` }];
      }),
    }),
    describe: async (unit, { mention_name: name }) => ({ level: 'ok', subject: unit, message: `@${name} can be read` }),
    /** Shortcut does not document that a comment hides HTML: the words of the marker are its last line. */
    async comment(locator, given, signal) {
      const path = `${pathOf(locator)}/comments`;
      const author = (await me(signal)).id;
      return upsertComment(given, {
        async *pages() {
          const { content } = await api.read(z.array(schema.comment), path, {}, signal);
          yield content.filter(({ deleted }) => deleted !== true);
        },
        textOf: ({ text }) => text ?? '',
        authorOf: ({ author_id: by }) => by ?? undefined,
        ownAuthor: async () => author,
        post: (text) => api.send('POST', path, { text }, signal),
        edit: ({ id }, text) => api.send('PUT', `${path}/${id}`, { text }, signal),
        toComment: (_, text) => ({ author, text: plainComment(text) }),
      });
    },
    /** A story that is completed is left as it is. Otherwise it goes to a state of type done in its own workflow. */
    async close(locator, key, signal) {
      const { completed, workflow_id } = (await api.read(schema.closing, pathOf(locator), {}, signal)).content;
      if (completed) return;
      const { states } = (await api.read(schema.workflow, `/workflows/${workflow_id}`, {}, signal)).content;
      const [chosen] = states
        .filter(({ type, name }) => type === 'done' && isNamed(name, options.completedStatus))
        .toSorted((one, other) => one.position - other.position);
      if (chosen) {
        await api.send('PUT', pathOf(locator), { workflow_state_id: chosen.id }, signal);
        return;
      }
      throw new SyncError('conflict', `${key} cannot be closed: its workflow has no such state of type done`, {
        hint: 'Set completedStatus to a state of type done that each workflow has, or leave it out.',
      });
    },
  };
}

const DAY = 24 * 60 * 60_000;
/** Before it there was no Shortcut; older times of creation come from imports. */
const FIRST_YEAR = 2015;

interface Window {
  /** Parts of the query; both bounds are inclusive. */
  readonly query: Readonly<Record<string, unknown>>;
  readonly next: string | undefined;
}

/**
 * Shortcut answers a query with all of its stories at once (SH3), so pages are windows of time. For what was changed: a day of
 * changes each, the newest last and without an end, so that what changes meanwhile is still to come. For everything else: a
 * year of creation each, from the present one back, since the time of creation never moves. Neighbours share their bound: what is
 * read twice costs nothing, and no fraction of a second lies between them.
 *
 * @param now epoch milliseconds
 */
function windowOf(selection: Selection, page: string | undefined, now: number): Window {
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
