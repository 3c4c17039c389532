import type { AuditEntry } from '../../admin/audit.ts';
import type { EffectiveValue } from '../../admin/effective-config.ts';
import type { OpenWorkspaces } from '../../admin/open-workspace.ts';
import type { ListedWorkspace, ProcessStatus, SharedStatus, WorkspaceStatus } from '../../admin/status.ts';
import { workspaceConfiguration } from '../../admin/workspace-configuration.ts';
import { canAccess } from '../../model/caller.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { Server, ServerRequest } from '../../platform/http/server.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { ofWorkspace } from '../../platform/lib/own-command.ts';
import { count } from '../../platform/lib/quantities.ts';
import { actorOf, callerOf, formOf } from '../access-control.ts';
import { html, type Markup } from '../html.ts';
import { sendPage } from '../html-document.ts';
import { when } from '../moment.ts';
import { backfillsPage } from './backfills-page.ts';
import { changesPage } from './changes-page.ts';
import { numberOf } from './choices.ts';
import { dataTable, pager } from './data-table.ts';
import { deliveriesPage, deliveryPage } from './deliveries-page.ts';
import { itemPage } from './item-page.ts';
import { createLiveUpdates, type LiveUpdates } from './live-updates.ts';
import { overviewPage } from './overview-page.ts';
import { ACTIONS, type Action } from './page-actions.ts';
import { ask, type PageContent, pathOf, type Visit, type WorkspacePage, type WorkspaceVisit } from './page-content.ts';
import { type Frame, framedPage, liveParts, type NavigationEntry } from './page-frame.ts';
import { brokenContent, NO_WORKSPACE, problemContent, toldOf } from './problem-content.ts';
import { problemsPage } from './problems-page.ts';
import { replicasPage } from './replicas-page.ts';
import { rulesPage, triedRulesPage } from './rules-page.ts';
import { chip, type Tone, VERDICT_TONES } from './tones.ts';
import { createWorkspaceList } from './workspace-list-page.ts';

export interface PageDeps {
  readonly workspaces: OpenWorkspaces;
  readonly clock: Clock;
  /** The status of the process, without the workspaces. */
  readonly process: () => ProcessStatus;
  /** The options of the daemon with their origins. */
  readonly daemonOptions: () => Promise<readonly EffectiveValue[]>;
  /** All workspaces, worst first. */
  readonly list: () => Promise<readonly ListedWorkspace[]>;
  /** The owners of the workspaces; absent: this is the only process. */
  readonly shared?: () => Promise<SharedStatus>;
  /** Replaces the values of secrets, because stored error texts may contain what others sent. */
  readonly scrub: (text: string) => string;
}

interface PageEntry {
  /** Below the address of the workspace. */
  readonly path: string;
  /** Its name in the navigation; null if a list leads to it. */
  readonly name: string | null;
  /** The path of the page that leads to a page without a name. */
  readonly below?: string;
  readonly page: WorkspacePage;
  readonly badge?: (visit: WorkspaceVisit) => NavigationEntry['badge'];
}

const PAGES: readonly PageEntry[] = [
  { path: '', name: 'Overview', page: overviewPage },
  {
    path: 'problems',
    name: 'Problems',
    page: problemsPage,
    badge: ({ status }) => ({ count: status.causes.length, tone: VERDICT_TONES[status.verdict] }),
  },
  {
    path: 'changes',
    name: 'Changes',
    page: changesPage,
    badge: ({ status }) => ({ count: status.changes.byState.held, tone: 'wait' }),
  },
  { path: 'deliveries', name: 'Deliveries', page: deliveriesPage },
  { path: 'delivery', name: null, below: 'deliveries', page: deliveryPage },
  { path: 'item', name: 'Items', page: itemPage },
  { path: 'backfills', name: 'Backfills', page: backfillsPage },
  { path: 'rules', name: 'Rules', page: rulesPage },
  { path: 'configuration', name: 'Configuration', page: configurationPage },
  { path: 'audit', name: 'Audit', page: auditPage },
];

const READ = { door: 'read' } as const;
const ALL = { door: 'read', filters: true } as const;
/** Bytes of the largest form of ours, the configuration of the rule lab. */
const LARGEST_FORM = 512 * 1_024;
/** The browser continues with a GET. */
const SEE_OTHER = 303;

/**
 * The pages of people: `/` lists the workspaces, worst first, and redirects if there is only one; `/workspaces/<name>/…` are the
 * pages of one. Each has its events below `/live`. `POST /workspaces/<name>/actions/<action>` receives their forms.
 */
export function workspaceRoutes(server: Server, deps: PageDeps): void {
  const live = createLiveUpdates(server, deps.clock);
  const maker = createPageMaker(deps);
  listRoutes(server, deps, { live, maker });
  for (const entry of PAGES) {
    const path = `/workspaces/:workspace${entry.path === '' ? '' : `/${entry.path}`}`;
    server.get(path, { config: READ }, async (request, reply) => {
      const { content, frame, status } = await maker.made(request, entry);
      return sendPage(reply.code(status), framedPage(content, frame));
    });
    server.get(`/live${path}`, { config: READ }, (request, reply) =>
      live.send(request, reply, async () => {
        const { content, frame } = await maker.made(request, entry);
        return { title: `${content.title} – ${frame.workspace?.name} – worksync`, parts: liveParts(content, frame) };
      }),
    );
  }
  formRoutes(server, deps, maker);
  const { shared } = deps;
  if (shared) replicaPageRoutes(server, shared, { live, maker });
}

/** The page of the processes, for callers of all workspaces only. */
function replicaPageRoutes(
  server: Server,
  shared: () => Promise<SharedStatus>,
  { live, maker }: { readonly live: LiveUpdates; readonly maker: PageMaker },
): void {
  const content = async (request: ServerRequest) => replicasPage(maker.visitOf(request), await shared());
  server.get('/replicas', { config: READ }, async (request, reply) => {
    const frame = maker.frameOf(maker.visitOf(request), request.url);
    return sendPage(reply, framedPage(await content(request), frame));
  });
  server.get('/live/replicas', { config: READ }, (request, reply) =>
    live.send(request, reply, async () => {
      const made = await content(request);
      return { title: `${made.title} – worksync`, parts: liveParts(made, {}) };
    }),
  );
}

interface Made {
  readonly content: PageContent;
  readonly frame: Frame;
  readonly status: number;
}

interface PageMaker {
  visitOf(request: ServerRequest): Visit;
  frameOf(visit: Visit, url: string, workspace?: Frame['workspace']): Frame;
  /** Builds a page with its frame; an error page if the workspace is not open, or the page cannot be built. */
  made(request: ServerRequest, entry: PageEntry): Promise<Made>;
}

function createPageMaker({ workspaces, clock, scrub, process, daemonOptions }: PageDeps): PageMaker {
  const visitOf: PageMaker['visitOf'] = (request) => ({
    ...{ caller: callerOf(request), clock, now: clock.now(), scrub, query: parametersOf(request) },
    process: process(),
    daemonOptions,
    clean: (value) => JSON.parse(scrub(JSON.stringify(value))) as typeof value,
  });
  const frameOf: PageMaker['frameOf'] = ({ caller, now, process: running }, url, workspace) => ({
    ...{ caller, now, process: running, workspace },
    live: `/live${url.replace(/^\/(?=\?|$)/, '')}`,
  });
  return {
    visitOf,
    frameOf,
    async made(request, entry) {
      const visit = visitOf(request);
      const { workspace: name } = request.params as { workspace: string };
      const url = request.url.replace(/^\/live/, '');
      const partition = workspaces.find(name);
      const bare = frameOf(visit, url, { name, pages: [], current: '' });
      const broken = (reason: SyncError) => ({
        content: brokenContent(visit.clean(toldOf(reason))),
        frame: bare,
        status: 200,
      });
      if (!partition) {
        const reason = workspaces.broken().get(name);
        return reason ? broken(reason) : { content: NO_WORKSPACE, frame: bare, status: 404 };
      }
      const result = await partition.status(workspaces.rejected().get(name)).catch(asSyncError);
      // The page shows why the status could not be read.
      if (result instanceof SyncError) return broken(result);
      const named = nameForCommands(workspaces, name);
      const status = withCommandsOf(visit.clean(result), named);
      const whole: WorkspaceVisit = { ...visit, partition, status, named };
      const current = entry.name === null ? (entry.below ?? '') : entry.path;
      const frame = frameOf(visit, url, { name, pages: navigation(whole), current });
      try {
        const content = await entry.page(whole);
        const { status: code = 200 } = content;
        return { content, frame, status: code };
      } catch (error) {
        const reason = asSyncError(error);
        if (status.verdict === 'blocked' && reason.code !== 'not_found') return broken(reason);
        const content = problemContent(visit.clean(toldOf(reason)));
        return { content, frame, status: reason.code === 'not_found' ? 404 : 422 };
      }
    },
  };
}

/** Returns the name of a workspace if commands must give it: there are several. */
function nameForCommands(workspaces: OpenWorkspaces, name: string): string | undefined {
  return workspaces.partitions().length + workspaces.broken().size > 1 ? name : undefined;
}

/** Completes the commands in the causes of a status. @param named see `WorkspaceVisit` */
function withCommandsOf(status: WorkspaceStatus, named: string | undefined): WorkspaceStatus {
  const causes = status.causes.map((cause) => ({
    ...cause,
    stops: ofWorkspace(cause.stops, named),
    hint: ofWorkspace(cause.hint, named),
    command: cause.command && ofWorkspace(`"${cause.command}"`, named).slice(1, -1),
  }));
  return { ...status, causes };
}

/** The last of several parameters with one name counts. */
function parametersOf({ query }: ServerRequest): ReadonlyMap<string, string> {
  const given = Object.entries(query as Record<string, string | string[]>);
  return new Map(given.map(([name, value]) => [name, [value].flat().at(-1) ?? '']));
}

/** Entries of the navigation, with the number of things that need attention. */
function navigation(visit: WorkspaceVisit): NavigationEntry[] {
  return PAGES.flatMap(({ path, name, badge }) =>
    name === null ? [] : [{ path, name, badge: badge?.(visit) ?? null }],
  );
}

interface ListParts {
  readonly live: LiveUpdates;
  readonly maker: PageMaker;
}

function listRoutes(server: Server, deps: PageDeps, { live, maker }: ListParts): void {
  const { workspaces } = deps;
  const list = createWorkspaceList(deps);

  /** The only workspace that the caller sees; undefined if there are several, or none. */
  function onlyOne(request: ServerRequest): string | undefined {
    const names = [...workspaces.partitions().map(({ name }) => name), ...workspaces.broken().keys()];
    const seen = names.filter((name) => canAccess(callerOf(request), name));
    return seen.length === 1 ? seen[0] : undefined;
  }

  server.get('/', { config: ALL }, async (request, reply) => {
    const only = onlyOne(request);
    if (only !== undefined) return reply.redirect(pathOf(only, ''));
    const visit = maker.visitOf(request);
    return sendPage(reply, framedPage(await list(visit), maker.frameOf(visit, request.url)));
  });
  server.get('/live', { config: ALL }, (request, reply) =>
    live.send(request, reply, async () => {
      const content = await list(maker.visitOf(request));
      return { title: `${content.title} – worksync`, parts: liveParts(content, {}) };
    }),
  );
}

function formRoutes(server: Server, { workspaces, clock }: PageDeps, { made, visitOf, frameOf }: PageMaker): void {
  const form = { config: { form: true }, bodyLimit: LARGEST_FORM } as const;
  server.post('/workspaces/:workspace/rules', form, async (request, reply) => {
    const config = formOf(request).get('config') ?? '';
    const page: WorkspacePage = (visit) => triedRulesPage(visit, config);
    const { content, frame, status } = await made(request, { path: 'rules', name: 'Rules', page });
    return sendPage(reply.code(status), framedPage(content, { ...frame, live: null }));
  });
  server.post('/workspaces/:workspace/actions/:action', form, async (request, reply) => {
    const { workspace, action } = request.params as { workspace: string; action: string };
    const partition = workspaces.find(workspace);
    const act = Object.hasOwn(ACTIONS, action) ? (ACTIONS as Readonly<Record<string, Action>>)[action] : undefined;
    if (!partition || !act) return reply.code(404).send({ error: 'not_found' });
    try {
      const path = await act({ partition, form: formOf(request), clock, actor: actorOf(request) });
      return reply.redirect(path, SEE_OTHER);
    } catch (error) {
      const visit = visitOf(request);
      const content = problemContent(visit.clean(toldOf(asSyncError(error))));
      const frame = frameOf(visit, pathOf(workspace, ''), { name: workspace, pages: [], current: '' });
      return sendPage(reply.code(422), framedPage(content, { ...frame, live: null }));
    }
  });
}

const ENTRIES_SHOWN = 50;

const OUTCOMES: Readonly<Record<AuditEntry['outcome'], readonly [tone: Tone, words: string]>> = {
  begun: ['wait', 'begun'],
  done: ['good', 'done'],
  failed: ['bad', 'failed'],
  asked: ['wait', 'in 10 s'],
  undone: ['soft', 'undone'],
};

/** The page of the changes that people made by commands and buttons, the latest first. */
async function auditPage(visit: WorkspaceVisit): Promise<PageContent> {
  const { partition, now, query } = visit;
  const before = numberOf(query, 'before');
  const { entries, next } = visit.clean(await ask(visit, 'audit', { since: null, before, limit: ENTRIES_SHOWN }));
  const table = dataTable<AuditEntry>({
    title: 'What people changed',
    rows: entries,
    empty: 'Nobody has changed anything of this workspace by a command or a button yet.',
    foot: pager({
      words: 'latest first',
      previous: before === null ? null : pathOf(partition.name, 'audit'),
      next: next === null ? null : pathOf(partition.name, 'audit', { before: next }),
    }),
    columns: [
      { title: 'State', kind: 'state', cell: ({ outcome }) => chip(...OUTCOMES[outcome]) },
      {
        title: 'What',
        kind: 'name',
        cell: ({ action, subject }) =>
          html`${action.replaceAll('-', ' ')}${subject === null ? null : html` <span class="soft text">${subject}</span>`}`,
      },
      {
        title: 'How many',
        kind: 'number',
        isTitled: true,
        cell: ({ count: many }) => (many === null ? null : count(many)),
      },
      { title: 'Who', kind: 'tight', isTitled: true, cell: ({ actor }) => actor },
      { title: 'When', kind: 'tight', cell: ({ at }) => when(at, now) },
      { title: 'Details', kind: 'text', cell: ({ details }) => details },
    ],
  });
  return { title: 'Audit', parts: [{ id: 'audit', body: table }] };
}

/** The values in use with their origins: first the configured ones, then the defaults. */
async function configurationPage(visit: WorkspaceVisit): Promise<PageContent> {
  const { partition, scrub, caller, daemonOptions } = visit;
  const values = await workspaceConfiguration(partition, scrub);
  const isDefault = ({ origin }: EffectiveValue) => origin === 'default';
  return {
    title: 'Configuration',
    parts: [
      {
        id: 'written',
        body: valueTable(
          'Written in the file',
          values.filter((each) => !isDefault(each)),
        ),
      },
      { id: 'defaults', body: valueTable('Defaults', values.filter(isDefault)) },
      // Callers with some workspaces only must not see the options of the machine.
      ...(caller.workspaces === null
        ? [{ id: 'daemon', body: valueTable('Options of the daemon', await daemonOptions()) }]
        : []),
    ],
  };
}

function valueTable(title: string, values: readonly EffectiveValue[]): Markup {
  return dataTable<EffectiveValue>({
    title,
    rows: values,
    empty: 'Nothing.',
    columns: [
      { title: 'Key', kind: 'name', cell: ({ key }) => html`<code>${key}</code>` },
      { title: 'Value', kind: 'text', cell: ({ value }) => html`<code>${wordsOf(value)}</code>` },
      { title: 'Origin', kind: 'text', cell: ({ origin }) => html`<span class="soft">${shortOrigin(origin)}</span>` },
    ],
  });
}

function wordsOf(value: unknown): string {
  if (value === null) return 'not set';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Shortens an origin to the name of its file, because the daemon knows the folder. */
function shortOrigin(origin: string): string {
  return origin.replace(/^.*\/(?=[^/]+:\d)/, '');
}
