import { z } from 'zod';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import type { Connection, ConnectionDeps } from '../connector.ts';
import { wordsOfMarker } from '../kit/comments.ts';
import { findingsOf } from '../kit/findings.ts';
import { type Locator, rowNames } from '../kit/items.ts';
import { omitUndefined, readable, writeJson } from '../kit/payload.ts';
import { malformed, onOneLine, type Rate, type Refusals, rateFrom, untilReset } from '../kit/refusal.ts';
import { bearer, createListing, createRest, type Rest } from '../kit/rest.ts';
import { isRefusedList } from '../kit/scope.ts';
import type { TrackerSource } from '../kit/tracker.ts';
import { emptyPageFlag, firstWalkStart, type ListRequest, nextPage, pagesOf, storedPage } from '../kit/walk.ts';
import { baseOf, type Options } from './options.ts';
import type { Project } from './schema.ts';
import * as schema from './schema.ts';

const SECOND = 1_000;
const CURSOR = /^-?\d{1,20}:\d{1,10}:[01]$/;
const NUMBER = /^\d+$/;
const PREFIX = 'x-sentry-rate-limit';

const refusals: Refusals = {
  /** `detail` is a text, or has one. */
  messageOf(body) {
    const { detail } = body as { detail?: unknown };
    return (detail as { message?: unknown } | undefined)?.message ?? detail;
  },
  /**
   * Where requests are left, too many ran at one time (`-concurrentremaining` 0): a few seconds are enough then. Otherwise
   * until the window is over.
   */
  waitOf(answer, now) {
    const rate = rateOf(answer.headers);
    if (rate && rate.remaining > 0 && answer.headers[`${PREFIX}-concurrentremaining`] === '0') return 5 * SECOND;
    return untilReset(answer, rate?.resetAt, now);
  },
};

/** Counted for each caller and kind of request; resets are in seconds, with a fraction at times. */
function rateOf(headers: HttpAnswer['headers']): Rate | undefined {
  const reset = headers[`${PREFIX}-reset`]?.replace(/\.\d+$/, '');
  return rateFrom(reset === undefined ? headers : { ...headers, [`${PREFIX}-reset`]: reset }, PREFIX);
}

export function connect(options: Options, deps: ConnectionDeps): TrackerSource<schema.Project> {
  const { organization, token } = options;
  /** Below the organisation, whose name goes into no log. */
  const shown = (path: string) => path.split(`/${organization}/`).at(-1) || 'the organisation';
  const api = createRest({ target: 'sentry', base: baseOf(options), headers: bearer(token), refusals, shown }, deps);
  const containers = createListing(deps.clock, async (signal) => {
    const path = `/organizations/${organization}/projects/`;
    const shape = z.array(schema.project);
    const pages = pagesOf(`GET ${shown(path)}`, (page) => pageAt(api, path, { per_page: '100' }, shape, page, signal));
    return (await Array.fromAsync(pages)).flat();
  });

  /** A number needs no request: issues are listed by it. */
  async function container(unit: string, signal: AbortSignal): Promise<schema.Project> {
    if (NUMBER.test(unit)) return { id: unit, slug: unit };
    const found = (await containers(signal)).find(({ slug }) => slug === unit);
    if (found) return found;
    throw new SyncError('not_found', `the token can see no project ${unit}`);
  }

  /** Empty for all: without a query Sentry lists unresolved issues only. Created last first is an order that never changes. */
  async function list({ unit, selection, page }: ListRequest, signal: AbortSignal) {
    const { id: project } = await container(unit, signal);
    const sort = selection.items === 'ids' ? 'new' : 'date';
    const query = selection.items === 'open' ? 'is:unresolved' : '';
    const wanted = { project, query, sort, limit: '100', collapse: 'stats' };
    const path = `/organizations/${organization}/issues/`;
    const listed = await pageAt(api, path, wanted, z.array(z.unknown()), page, signal, schema.KEPT);
    return { ...listed, found: listed.found.map(schema.slim) };
  }

  const pathOf = ({ id }: Locator) => `/organizations/${organization}/issues/${id}/`;

  return {
    containers,
    container,
    currentContainer: async (unit, signal) =>
      (await api.read(schema.project, `/projects/${organization}/${unit}/`, {}, signal)).content,
    list,
    /** It is gone where another one comes in its place, with which it was merged. */
    async item(locator, signal) {
      const { content } = await api.read(schema.anIssue, pathOf(locator), {}, signal, schema.KEPT);
      return content.id === locator.id ? { found: schema.slim(content) } : { isGone: true };
    },
    about: async (signal) => ({ first: await about(api, options, signal) }),
    /** A token may see a project and not its issues. */
    async describe(unit, { id: containerId }, signal) {
      await list({ unit, selection: { items: 'ids', containerId }, page: undefined, use: 'poll' }, signal);
      return { level: 'ok', subject: unit, message: 'its issues can be read' };
    },
    /** Updates the one that carries the words of the marker in its last line. */
    async comment(locator, { marker, text, isCorrection }, signal) {
      const path = `${pathOf(locator)}comments/`;
      const words = wordsOfMarker(marker);
      const whole = `${text}\n\n${words}`;
      const notes: schema.Note[] = [];
      const pages = pagesOf(`GET ${shown(path)}`, (each) => pageAt(api, path, {}, z.array(z.unknown()), each, signal));
      for await (const page of pages) notes.push(...page.flatMap((each) => readable(schema.note, each) ?? []));
      for (const { id, data } of notes.filter((each) => each.data.text.includes(words))) {
        if (data.text.trim() === whole || (await isEdited(api, `${path}${id}/`, whole, signal))) return undefined;
      }
      if (!isCorrection) await api.send('POST', path, { text: whole }, signal);
      return undefined;
    },
    /** Resolves the issue; one that is resolved or archived is left as it is. */
    async close(locator, _key, signal) {
      const path = pathOf(locator);
      const { content } = await api.read(z.object({ status: z.string() }), path, {}, signal);
      if (content.status === 'unresolved') await api.send('PUT', path, { status: 'resolved' }, signal);
    },
    extend: (connection) => withEverything(connection, container, list),
  };
}

function about(api: Rest, { organization, token }: Options, signal: AbortSignal) {
  const subject = 'organisation';
  return findingsOf(subject, async () => {
    const data = readable(schema.organization, (await api.get(`/organizations/${organization}/`, {}, signal)).content);
    const message = `${onOneLine(data?.name ?? organization, 100)} can be read`;
    if (token !== undefined) return [{ level: 'ok', subject, message }];
    return [{ level: 'warning', subject, message: `${message} without a token`, hint: 'Set token.' }];
  });
}

type Query = Readonly<Record<string, string>>;

async function pageAt<Element>(
  api: Rest,
  path: string,
  query: Query,
  shape: z.ZodType<readonly Element[]>,
  page: string | undefined,
  signal: AbortSignal,
  keep?: Shape,
) {
  const cursor = storedPage(page, CURSOR);
  const { content, answer } = await api.read(
    shape,
    path,
    { ...query, ...(cursor !== undefined && { cursor }) },
    signal,
    keep,
  );
  return { found: content, next: nextCursor(answer.headers['link'], cursor), answer };
}

/**
 * A next page is always named, also where there is none: `results` shows that (SE3). Of the link only the cursor is used, so
 * it leads nowhere else.
 */
function nextCursor(header: string | undefined, present: string | undefined): string | undefined {
  const next = (header ?? '').split(/,\s*(?=<)/).find((link) => /;\s*rel="next"/.test(link));
  if (next === undefined) return undefined;
  const results = /;\s*results="(true|false)"/.exec(next)?.[1];
  if (results === 'false') return undefined;
  if (results === undefined) throw malformed('a list of Sentry does not say whether another page follows');
  return nextPage(/;\s*cursor="([^"]{1,60})"/.exec(next)?.[1], CURSOR, present, 'a list of Sentry');
}

/** Sentry refuses edits of other people's comments: a quotation of ours is skipped. */
async function isEdited(api: Rest, path: string, text: string, signal: AbortSignal): Promise<boolean> {
  try {
    await api.send('PUT', path, { text }, signal);
    return true;
  } catch (thrown) {
    const { status } = asSyncError(thrown);
    if (status === 403 || status === 404) return false;
    throw thrown;
  }
}

/** Before the name of a project: all its issues, walked seldom. */
const EVERYTHING = 'all:';
/** Resolving and assigning change no time, so only a complete read finds what no webhook reported. */
const EVERYTHING_AFTER = 6 * 60 * 60_000;

const { list: event } = rowNames('issues');

/** Each project has two walks: of recently seen issues, and at long intervals of all. */
function withEverything(
  connection: Connection,
  container: TrackerSource<Project>['container'],
  list: TrackerSource<Project>['list'],
): Partial<Connection> {
  /** The watermark is when the last such walk began. */
  const pollEverything: Connection['poll'] = async (position, signal) => {
    const { unit, watermark, startedAt, page } = position;
    const isDue = watermark === undefined || Date.parse(startedAt) - Date.parse(watermark) >= EVERYTHING_AFTER;
    if (page === undefined && !isDue) return { outcome: 'unchanged' };
    const project = unit.slice(EVERYTHING.length);
    const selection = { items: 'ids', containerId: (await container(project, signal)).id } as const;
    const listed = await list({ unit: project, selection, page, use: 'poll' }, signal);
    const { found, next, answer } = listed;
    const newest = firstWalkStart(position, answer);
    return {
      outcome: 'page',
      event,
      body: writeJson(found),
      newest,
      ...omitUndefined({ next }),
      ...emptyPageFlag(listed),
    };
  };

  return {
    async units(signal) {
      const projects = await connection.units(signal);
      const readable = projects.filter((project) => !isRefusedList(project));
      return [...projects, ...readable.map((project) => EVERYTHING + project)];
    },
    poll: (position, signal) =>
      position.unit.startsWith(EVERYTHING) ? pollEverything(position, signal) : connection.poll(position, signal),
    /** The second unit of a project adds nothing to its backfill, and speaks for nothing in a sweep. */
    history: async (position, signal) =>
      position.unit.startsWith(EVERYTHING)
        ? { event, body: writeJson([]) }
        : ((await connection.history?.(position, signal)) ?? { event, body: writeJson([]) }),
    sweep: async (unit, page, signal) =>
      (unit.startsWith(EVERYTHING) ? undefined : await connection.sweep?.(unit, page, signal)) ?? NOTHING,
  };
}

const NOTHING = { keys: [], containers: [] };
