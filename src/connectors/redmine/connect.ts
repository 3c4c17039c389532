import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import { plainComment } from '../../model/notice.ts';
import type { ConnectionDeps, Finding } from '../connector.ts';
import { upsertComment } from '../kit/comments.ts';
import { type About, failedFinding, findingsOf } from '../kit/findings.ts';
import { type Locator, mustCheckScope } from '../kit/items.ts';
import { isNamed, readable } from '../kit/payload.ts';
import { malformed, onOneLine, type Refusals, undefinedOn } from '../kit/refusal.ts';
import { createListing, createRest, type Rest } from '../kit/rest.ts';
import type { TrackerSource } from '../kit/tracker.ts';
import { countedPagesOf, type ListRequest, type Selection } from '../kit/walk.ts';
import { baseOf, type Options } from './options.ts';
import type { Status } from './schema.ts';
import * as schema from './schema.ts';

const LIST = '/issues.json';
/** The most issues of one page. */
const PAGE = '100';
const NUMBER = /^[1-9]\d{0,15}$/;

/** Without a login, 401 is the answer for each thing that is not public, and does not concern the rest. */
const refusalsFor = ({ apiKey }: Options): Refusals =>
  apiKey === undefined ? { ...refusals, statuses: new Map([[401, 'forbidden']]) } : refusals;

const refusals: Refusals = {
  /** Refused writes list their faults. */
  messageOf: (body) => (body as { errors?: unknown[] }).errors?.filter((text) => typeof text === 'string').join(', '),
  hints: {
    401: 'Set apiKey to the key of an active user; an administrator must have enabled the REST web service.',
    403: 'Give the user of apiKey a role in the project that may view issues, and see that its module "Issue tracking" is on.',
  },
};

/** The API of one Redmine. It has no limit itself, but a proxy in front of it may. */
export function connect(options: Options, deps: ConnectionDeps): TrackerSource<schema.Project> {
  const { apiKey, formatting, completedStatus } = options;
  const headers: Record<string, string> = apiKey === undefined ? {} : { 'x-redmine-api-key': apiKey };
  const api = createRest({ target: 'redmine', base: baseOf(options), headers, refusals: refusalsFor(options) }, deps);
  const statusesBeside = createStatuses(api, deps);
  let me: string | undefined;

  const projectPath = (unit: string) => `/projects/${encodeURIComponent(unit)}.json`;

  async function project(unit: string, signal: AbortSignal): Promise<schema.Project> {
    return (await api.read(z.object({ project: schema.project }), projectPath(unit), {}, signal)).content.project;
  }

  async function withModules(unit: string, signal: AbortSignal): Promise<schema.Project> {
    const shape = z.object({ project: schema.container });
    return (await api.read(shape, projectPath(unit), { include: 'enabled_modules' }, signal)).content.project;
  }

  const pathOf = ({ id }: Locator) => `/issues/${id}.json`;

  async function read<Issue>(shape: z.ZodType<Issue>, locator: Locator, include: string, signal: AbortSignal) {
    return (await api.read(z.object({ issue: shape }), pathOf(locator), { include }, signal)).content.issue;
  }

  return {
    async containers(signal) {
      const path = '/projects.json';
      const pages = countedPagesOf(`GET ${path}`, async (seen) => {
        const query = { limit: PAGE, offset: String(seen) };
        const { projects, total_count: total } = (await api.read(schema.projects, path, query, signal)).content;
        return { found: projects, isLast: projects.length === 0 || seen + projects.length >= total };
      });
      return (await Array.fromAsync(pages)).flat();
    },
    container: withModules,
    offIn({ identifier, name = identifier, enabled_modules: modules }) {
      const isOn = modules === undefined || modules.some((each) => each.name === 'issue_tracking');
      return isOn ? undefined : `issues of ${onOneLine(name, 100)}`;
    },
    /**
     * Lists one page of a project's issues, without those of its subprojects, by number. The next page begins at a number and not
     * at an offset, so that changes, closings and deletions meanwhile move no other issue onto a page that was read.
     */
    async list(wanted, signal) {
      const { content, answer } = await api.read(schema.page, LIST, queryOf(wanted), signal, schema.KEPT_PAGE);
      const { issues, total_count: total } = content;
      const sign = isDownwards(wanted.selection) ? -1 : 1;
      const last = requireOrder(issues, sign, wanted.page);
      if (last === undefined && total > 0) throw malformed(`GET ${LIST}: an empty page before the last one`);
      const next = last === undefined || total <= issues.length ? 0 : last + sign;
      const counted = wanted.page === undefined ? total : undefined;
      return { found: issues.map(schema.slim), next: next < 1 ? undefined : String(next), answer, total: counted };
    },
    pageContent: async (issues, signal) => ({ issues, statuses: await statusesBeside(issues, signal) }),
    /** 403 is the answer for hidden issues, and 404 for missing ones. */
    async item(locator, signal) {
      const asked = api.read(schema.placed, pathOf(locator), {}, signal, { issue: schema.KEPT });
      const issue = (await undefinedOn(asked, 'forbidden'))?.content.issue;
      if (!issue) return { isGone: false };
      const found = { issue: schema.slim(issue), statuses: await statusesBeside([issue], signal) };
      if (!mustCheckScope(locator)) return { found };
      return { found: { ...found, project: await project(String(issue.project.id), signal) } };
    },
    about: (signal) => about(api, options, signal),
    /** A user may see a project without the right to see its issues, or it may have no issues at all. */
    async describe(unit, { identifier, name = identifier }, signal) {
      const selection = { items: 'open', began: 0 } as const;
      await api.read(schema.page, LIST, queryOf({ unit, selection, page: undefined, use: 'poll' }), signal);
      return { level: 'ok', subject: unit, message: `${onOneLine(name, 100)} can be read` };
    },
    /** Textile shows HTML comments to people, so the words of the marker are then the note's last line; Markdown hides them. */
    async comment(locator, given, signal) {
      me ??= String((await api.read(schema.myself, '/users/current.json', {}, signal)).content.user.id);
      const author = me;
      return upsertComment(given, {
        write: (text, words) => `${text}\n\n${formatting === 'markdown' ? given.marker : words}`,
        async *pages() {
          yield (await read(schema.withJournals, locator, 'journals', signal)).journals;
        },
        textOf: ({ notes }) => notes ?? '',
        authorOf: ({ user }) => user && String(user.id),
        ownAuthor: async () => author,
        post: (notes) => api.send('PUT', pathOf(locator), { issue: { notes } }, signal),
        /** Before version 5, notes cannot be edited through the API: the first one stays, and no second is added. */
        edit: ({ id }, notes) =>
          undefinedOn(api.send('PUT', `/journals/${id}.json`, { journal: { notes } }, signal), 'not_found'),
        toComment: (_, text) => ({ author, text: plainComment(text) }),
      });
    },
    /**
     * Moves the issue to a closed status that the workflow allows. Redmine answers a forbidden move like a success, and changes
     * nothing, so worksync reads the issue again.
     */
    async close(locator, key, signal) {
      const statuses = await readStatuses(api, signal);
      const { status, allowed_statuses: allowed = statuses } = await read(schema.current, locator, ALLOWED, signal);
      const isClosed = (id: number) => statuses.some((each) => each.id === id && each.is_closed);
      if (isClosed(status.id)) return;
      const chosen = allowed.find(({ id, name }) => isClosed(id) && isNamed(name, completedStatus));
      if (chosen) {
        await api.send('PUT', pathOf(locator), { issue: { status_id: chosen.id } }, signal);
        if (isClosed((await read(schema.current, locator, ALLOWED, signal)).status.id)) return;
      }
      const aim = completedStatus === undefined ? 'a closed status' : `the status ${completedStatus}`;
      throw new SyncError('conflict', `${key} cannot be closed: its workflow does not lead to ${aim}`, {
        hint: "Let the workflow allow that change to the user's role, or set completedStatus to a status that it allows.",
      });
    },
  };
}

const ALLOWED = 'allowed_statuses';

/** Whether the order is descending, as for backfills. */
function isDownwards(selection: Selection): boolean {
  return selection.items === 'changed' && selection.way === 'history';
}

function queryOf({ unit, selection, page }: ListRequest): Readonly<Record<string, string>> {
  const isDown = isDownwards(selection);
  if (page !== undefined && !NUMBER.test(page))
    throw new SyncError('internal', `the stored page of a walk is invalid: ${page.slice(0, 40)}`);
  return {
    project_id: unit,
    subproject_id: '!*',
    ...filterOf(selection),
    sort: isDown ? 'id:desc' : 'id',
    limit: PAGE,
    ...(page !== undefined && { issue_id: `${isDown ? '<=' : '>='}${page}` }),
  };
}

/** Redmine lists open issues only by default. One that is closed meanwhile hides no other. */
function filterOf(selection: Selection): Readonly<Record<string, string>> {
  if (selection.items === 'open') return { status_id: 'open' };
  if (selection.items === 'ids' || selection.since === undefined) return { status_id: '*' };
  // In UTC, in whole seconds.
  return { status_id: '*', updated_on: `>=${new Date(selection.since).toISOString().replace(/\.\d+Z$/, 'Z')}` };
}

/**
 * Returns the last number. A Redmine that does not know one of the filters ignores it, and the walk would never end. An issue
 * with an unreadable number has no place in the order: `translate` rejects it.
 */
function requireOrder(issues: readonly unknown[], sign: 1 | -1, page: string | undefined): number | undefined {
  let least = page === undefined ? Number.NEGATIVE_INFINITY : Number(page) * sign;
  let last: number | undefined;
  for (const issue of issues) {
    const number = readable(schema.numbered, issue)?.id;
    if (number === undefined) continue;
    if (number * sign < least)
      throw new SyncError('answer_malformed', `GET ${LIST}: issue ${number} is out of order`, {
        hint: 'worksync needs Redmine 3.4 or newer, which lists issues from a number on.',
      });
    last = number;
    least = number * sign + 1;
  }
  return last;
}

/** Proves the key and the statuses. A wrong key is no error elsewhere: Redmine then answers as to anybody. */
async function about(api: Rest, options: Options, signal: AbortSignal): Promise<About> {
  const first = options.apiKey === undefined ? [anonymous] : await credential(api, signal);
  if (first.some(({ level }) => level === 'error')) return { first };
  try {
    return { first, besides: statusesOf(await readStatuses(api, signal), options) };
  } catch (thrown) {
    return { first: [...first, failedFinding('address', thrown)] };
  }
}

const anonymous: Finding = {
  level: 'warning',
  subject: 'credential',
  message: 'none: worksync reads only what is public',
  hint: 'Set apiKey.',
};

const user = z.object({ user: z.object({ login: z.string().catch('without a login') }) });

function credential(api: Rest, signal: AbortSignal) {
  return findingsOf('credential', async () => {
    const data = readable(user, (await api.get('/users/current.json', {}, signal)).content);
    const message = `of ${onOneLine(data?.user.login ?? 'somebody', 100)}`;
    return [{ level: 'ok', subject: 'credential', message }];
  });
}

function statusesOf(found: readonly Status[], { inProgress, completedStatus }: Options): readonly Finding[] {
  const subject = 'statuses';
  const names = new Set(found.map(({ name }) => name.toLowerCase()));
  const closed = found.filter(({ is_closed }) => is_closed);
  const findings: Finding[] = inProgress
    .filter((name) => !names.has(name.toLowerCase()))
    .map((name) => ({
      level: 'warning',
      subject,
      message: `inProgress names ${onOneLine(name, 100)}, which is no status there`,
      hint: `Write some of: ${onOneLine(found.map(({ name: each }) => each).join(', '), 400)}.`,
    }));
  if (closed.length === 0)
    findings.push({
      level: 'warning',
      subject,
      message: 'none counts as closed, so no issue is ever done',
      hint: 'Let an administrator mark a status as "Issue closed".',
    });
  if (completedStatus !== undefined && !closed.some(({ name }) => name.toLowerCase() === completedStatus.toLowerCase()))
    findings.push({
      level: 'error',
      subject,
      message: `completedStatus names ${onOneLine(completedStatus, 100)}, which is no closed status there`,
      hint: `Write one of: ${onOneLine(closed.map(({ name }) => name).join(', '), 400)}.`,
    });
  return findings.length > 0 ? findings : [{ level: 'ok', subject, message: `${closed.length} count as closed` }];
}

const untold = z.object({ status: z.object({ id: z.int(), is_closed: z.undefined().optional() }) });

/** Returns a reader of the statuses of issues; it returns undefined if all of them report whether they are closed. */
function createStatuses(api: Rest, { clock }: ConnectionDeps) {
  let known: readonly schema.Status[] = [];
  const load = async (signal: AbortSignal) => {
    known = await readStatuses(api, signal);
    return known;
  };
  let listing = createListing(clock, load);
  return async (issues: readonly unknown[], signal: AbortSignal) => {
    const wanted = issues.flatMap((issue) => readable(untold, issue)?.status.id ?? []);
    if (wanted.length === 0) return undefined;
    // A new status is not in an older list.
    if (!wanted.every((id) => known.some((status) => status.id === id))) listing = createListing(clock, load);
    return await listing(signal);
  };
}

async function readStatuses(api: Rest, signal: AbortSignal): Promise<readonly schema.Status[]> {
  return (await api.read(schema.allStatuses, '/issue_statuses.json', {}, signal)).content.issue_statuses;
}
