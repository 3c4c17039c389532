import type { AuditEntry } from '../../admin/access/audit.ts';
import { type EffectiveValue, workspaceConfiguration } from '../../admin/installation/effective-config.ts';
import type { OpenWorkspaces } from '../../admin/open-workspace.ts';
import type { WorkspaceStatus } from '../../admin/status/status.ts';
import {
  readProcessStatus,
  readShared,
  readWorkspaceList,
  type ServedDaemon,
} from '../../admin/status/whole-status.ts';
import { canAccess } from '../../model/caller.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { Server, ServerRequest } from '../../platform/http/server.ts';
import { ofWorkspace } from '../../platform/lib/own-program.ts';
import { count } from '../../platform/lib/quantities.ts';
import { actorOf, callerOf, formOf } from '../access/access-control.ts';
import { changesPage } from '../changes/changes-page.ts';
import { problemsPage } from '../changes/problems-page.ts';
import { backfillsPage } from '../connections/connection-cards.ts';
import { deliveriesPage, deliveryPage } from '../deliveries/deliveries-page.ts';
import { chip, dataTable, html, type Markup, numberOf, pager, type Tone, VERDICT_TONES, when } from '../html.ts';
import { sendPage } from '../html-document.ts';
import { itemPage } from '../items/item-page.ts';
import { createWorkspaceList, replicasPage } from '../status/installation-pages.ts';
import { overviewPage } from '../status/overview-page.ts';
import { createLiveUpdates } from './live-updates.ts';
import { ACTIONS, type Action } from './page-actions.ts';
import {
  type PageContent,
  type PageContext,
  pathOf,
  request,
  type WorkspacePage,
  type WorkspacePageContext,
} from './page-content.ts';
import { type Frame, framedPage, liveParts, type NavigationEntry } from './page-frame.ts';
import { brokenContent, NO_WORKSPACE, problemContent, shownErrorOf } from './problem-content.ts';
import { rulesPage, triedRulesPage } from './rules-page.ts';

interface PageEntry {
  readonly path: string;
  /** Its name in the navigation; null if a list leads to it. */
  readonly name: string | null;
  /** The path of the page that leads to a page without a name. */
  readonly below?: string;
  readonly page: WorkspacePage;
  readonly badge?: (context: WorkspacePageContext) => NavigationEntry['badge'];
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

const READ = { access: 'read' } as const;
const ALL = { access: 'read', filters: true } as const;
/** Bytes of the largest form of ours, the configuration of the rule lab. */
const LARGEST_FORM = 512 * 1_024;
/** The browser continues with a GET. */
const SEE_OTHER = 303;

/**
 * The pages of people: `/` lists the workspaces, worst first, and redirects if there is only one; `/workspaces/<name>/…` are the
 * pages of one. Each has its events below `/live`. `POST /workspaces/<name>/actions/<action>` receives their forms.
 */
export function workspaceRoutes(server: Server, daemon: ServedDaemon): void {
  const { workspaces, clock, sharing } = daemon;
  const live = createLiveUpdates(server, clock);
  const maker = createPageMaker(daemon);

  /** Adds a page that is about no workspace, and its events. */
  function addPage(
    path: string,
    config: typeof READ | typeof ALL,
    page: (context: PageContext) => Promise<PageContent>,
    redirectOf: (request: ServerRequest) => string | undefined = () => undefined,
  ): void {
    server.get(path, { config }, async (request, reply) => {
      const target = redirectOf(request);
      if (target !== undefined) return reply.redirect(target);
      const context = maker.contextOf(request);
      return sendPage(reply, framedPage(await page(context), maker.frameOf(context, request.url)));
    });
    server.get(`/live${path === '/' ? '' : path}`, { config }, (request, reply) =>
      live.send(request, reply, async () => {
        const content = await page(maker.contextOf(request));
        return { title: `${content.title} – worksync`, parts: liveParts(content, {}) };
      }),
    );
  }

  /** Returns the page of the only workspace that the caller sees; undefined if there are several, or none. */
  function onlyOne(request: ServerRequest): string | undefined {
    const names = [...workspaces.partitions().map(({ name }) => name), ...workspaces.broken().keys()];
    const [only, another] = names.filter((name) => canAccess(callerOf(request), name));
    return only === undefined || another !== undefined ? undefined : pathOf(only, '');
  }

  const list = createWorkspaceList(() => readWorkspaceList(daemon));
  addPage('/', ALL, list, onlyOne);
  // Only callers of all workspaces get this page.
  if (sharing) addPage('/replicas', READ, async (context) => replicasPage(context, await readShared(sharing, clock)));
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
  formRoutes(server, daemon, maker);
}

type PageMaker = ReturnType<typeof createPageMaker>;

function createPageMaker(daemon: ServedDaemon) {
  const { workspaces, clock, scrub, daemonOptions } = daemon;
  const contextOf = (request: ServerRequest): PageContext => ({
    caller: callerOf(request),
    clock,
    now: clock.now(),
    scrub,
    query: parametersOf(request),
    process: readProcessStatus(daemon),
    daemonOptions,
    clean: (value) => JSON.parse(scrub(JSON.stringify(value))) as typeof value,
  });
  const frameOf = ({ caller, now, process }: PageContext, url: string, workspace?: Frame['workspace']): Frame => ({
    caller,
    now,
    process,
    workspace,
    live: `/live${url.replace(/^\/(?=\?|$)/, '')}`,
  });
  return {
    contextOf,
    frameOf,
    /** Builds a page with its frame; an error page if the workspace is not open, or the page cannot be built. */
    async made(request: ServerRequest, entry: PageEntry) {
      const context = contextOf(request);
      const { workspace: name } = request.params as { workspace: string };
      const url = request.url.replace(/^\/live/, '');
      const partition = workspaces.find(name);
      const bare = frameOf(context, url, { name, pages: [], current: '' });
      const broken = (reason: SyncError) => ({
        content: brokenContent(context.clean(shownErrorOf(reason))),
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
      const status = withCommandsOf(context.clean(result), named);
      const whole: WorkspacePageContext = { ...context, partition, status, named };
      const current = entry.name === null ? (entry.below ?? '') : entry.path;
      const frame = frameOf(context, url, { name, pages: navigation(whole), current });
      try {
        const content = await entry.page(whole);
        const { status: code = 200 } = content;
        return { content, frame, status: code };
      } catch (error) {
        const reason = asSyncError(error);
        if (status.verdict === 'blocked' && reason.code !== 'not_found') return broken(reason);
        const content = problemContent(context.clean(shownErrorOf(reason)));
        return { content, frame, status: reason.code === 'not_found' ? 404 : 422 };
      }
    },
  };
}

/** Returns the name of a workspace if commands must give it: there are several. */
function nameForCommands(workspaces: OpenWorkspaces, name: string): string | undefined {
  return workspaces.partitions().length + workspaces.broken().size > 1 ? name : undefined;
}

/** Completes the commands in the causes of a status. @param named see `WorkspacePageContext` */
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

function navigation(context: WorkspacePageContext): NavigationEntry[] {
  return PAGES.flatMap(({ path, name, badge }) =>
    name === null ? [] : [{ path, name, badge: badge?.(context) ?? null }],
  );
}

function formRoutes(
  server: Server,
  { workspaces, clock }: ServedDaemon,
  { made, contextOf, frameOf }: PageMaker,
): void {
  const form = { config: { form: true }, bodyLimit: LARGEST_FORM } as const;
  server.post('/workspaces/:workspace/rules', form, async (request, reply) => {
    const config = formOf(request).get('config') ?? '';
    const page: WorkspacePage = (context) => triedRulesPage(context, config);
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
      const context = contextOf(request);
      const content = problemContent(context.clean(shownErrorOf(asSyncError(error))));
      const frame = frameOf(context, pathOf(workspace, ''), { name: workspace, pages: [], current: '' });
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
async function auditPage(context: WorkspacePageContext): Promise<PageContent> {
  const { partition, now, query } = context;
  const before = numberOf(query, 'before');
  const { entries, next } = context.clean(
    await request(context, 'audit', { since: null, before, limit: ENTRIES_SHOWN }),
  );
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
async function configurationPage(context: WorkspacePageContext): Promise<PageContent> {
  const { partition, scrub, caller, daemonOptions } = context;
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
