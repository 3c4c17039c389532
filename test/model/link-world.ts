import { entity } from '../../src/model/change.ts';
import { type SyncError as Failure, SyncError } from '../../src/model/errors/sync-error.ts';
import { externalIdOf } from '../../src/model/link.ts';
import { pendingDeliveries } from '../../src/store/deliveries/inbox.ts';
import { saveTask } from '../../src/store/tasks/cached-tasks.ts';
import { configureLinks, noteListRefused } from '../../src/store/workspace/server-capabilities.ts';
import { appendAnswer } from '../../src/store/workspace/workspace-answers.ts';
import { enqueueReads } from '../../src/store/workspace/workspace-reads.ts';
import { recover } from '../../src/sync/outbox/outbox.ts';
import type { PreparedRequest } from '../../src/sync/outbox/request.ts';
import { settle } from '../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../src/sync/outbox/settle-failure.ts';
import { applyBatch } from '../../src/sync/reconcile/apply-batch.ts';
import { translateAll } from '../../src/sync/reconcile/translate-deliveries.ts';
import { prepareNext } from '../support/harness/prepare-next.ts';
import { openStore } from '../support/harness/store.ts';
import { batchContext, SOURCES, START, saidOf, takeBatch } from '../support/rows/batches.ts';
import { pull } from '../support/rows/items.ts';
import { openRecords } from '../support/rows/records-route.ts';
import type { Step } from './search.ts';

/**
 * One pull request whose title names one of two tasks in turn, over the program's own outbox and reconcile: how its link
 * follows, whatever is late or killed. A state is the rows of the database and what the server holds, so that the search may
 * go back to each one. No clock runs between steps; what waits for time waits until no request of a killed process is left.
 */

export interface Server {
  /** A second link to the same address is the first one. */
  readonly isIdempotent: boolean;
  /** A repeated addition is answered with 409. */
  readonly refusesRepetition?: boolean;
  /** Pull requests are recorded, and records name the tasks that link to them. */
  readonly hasRecords: boolean;
  /** Links are returned with the `externalId` that they were added with. */
  readonly echoes: boolean;
}

export interface LinkBounds {
  readonly server: Server;
  /** How often the title changes. */
  readonly titles: number;
  readonly kills: number;
  /** How many events of the server arrive; all others are lost. */
  readonly events: number;
  /** How often the links of a task, or the records, are read without a reason. */
  readonly reads: number;
  /** Answers and events are processed at once, and not at any later time. */
  readonly isPrompt: boolean;
}

interface Link {
  readonly workItemId: string;
  readonly taskId: string;
  readonly externalId: string | null;
}

interface Request {
  readonly prepared: PreparedRequest;
  /** `late`: its process was killed, and it may still arrive. */
  readonly stands: 'sent' | 'answered' | 'late';
  readonly answer?: { readonly body: unknown; readonly status: number };
}

interface Event {
  readonly action: 'saw-link' | 'saw-link-removed';
  readonly body: object;
}

export interface LinkState {
  /** The rows of the database, by table. */
  readonly rows: string;
  readonly links: readonly Link[];
  readonly record: Readonly<Record<string, unknown>> | null;
  /** Epoch milliseconds. */
  readonly clock: number;
  /** Links added so far. */
  readonly added: number;
  readonly requests: readonly Request[];
  readonly events: readonly Event[];
  readonly title: number;
  readonly kills: number;
  readonly heard: number;
  readonly reads: number;
}

const URL = 'https://github.com/acme/api/pull/1';
const TASKS = ['t0', 't1'] as const;
const titled = (title: number) =>
  pull({ url: URL, title: `BUG-${(title % 2) + 1}: a change`, updatedAt: START + title });
const KEY = titled(0).key;
/** After this all that waits for further events is due, milliseconds. */
const DEBOUNCE = 10_000;
const AT_ONCE = 2;

const TABLES = ['entities', 'inbox', 'items', 'mentions', 'meta', 'outbox', 'tasks'] as const;

/** Columns that the database fills. */
const GENERATED: ReadonlySet<string> = new Set([
  'called',
  'imported',
  'number',
  'prefix',
  'queue',
  'send_queue',
  'url',
]);

export async function openLinkWorld({ server, ...bounds }: LinkBounds) {
  const store = await openStore({ file: ':memory:' });
  const { database, query, commit } = store;
  const context = (now: number, id: string) => ({
    ...{ now, usedShare: 0, status: 200 },
    random: { float: () => 0.5, uuid: () => id, bytes: (length: number) => Buffer.alloc(length) },
  });
  let loaded = '';

  async function load({ rows }: LinkState): Promise<void> {
    if (rows === loaded) return;
    const before = tablesOf(loaded);
    const wanted = tablesOf(rows);
    for (const table of TABLES) {
      if (before.get(table) === wanted.get(table)) continue;
      await database.deleteFrom(table).execute();
      const all = JSON.parse(wanted.get(table) ?? '[]', asBuffer) as Record<string, unknown>[];
      const own = all.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => !GENERATED.has(name))));
      if (own.length > 0)
        await database
          .insertInto(table)
          .values(own as never)
          .execute();
    }
    loaded = rows;
  }

  async function saved(): Promise<string> {
    await database.deleteFrom('requests').execute();
    await database.deleteFrom('inbox').where('state', '!=', 'pending').execute();
    const tables: string[] = [];
    for (const table of TABLES) tables.push(JSON.stringify(await database.selectFrom(table).selectAll().execute()));
    loaded = tables.join('\n');
    return loaded;
  }

  async function start(): Promise<LinkState> {
    await commit(async (own) => {
      if (server.hasRecords) await openRecords(own);
      else
        await noteListRefused(
          own,
          { status: 404, own: true, error: 'no route' },
          { now: START, isWorkspaceRead: true },
        );
      await configureLinks(own, server.isIdempotent);
      for (const [index, taskId] of TASKS.entries()) {
        const task = { taskId, key: `BUG-${index + 1}`, title: 'A task', status: 'open', source: 'api' };
        await saveTask(own, { ...task, createdAt: '', updatedAt: '2026-01-01T00:00:00Z' }, START);
      }
      await takeBatch(own, [saidOf(titled(0))], 1);
    });
    await database.deleteFrom('outbox').where('kind', '=', 'read').execute();
    return {
      ...{ rows: await saved(), links: [], record: null, added: 0, requests: [], events: [] },
      ...{ title: 0, kills: 0, heard: 0, reads: 0, clock: START + 10_000 },
    };
  }

  /** Returns the states that may follow `work`. */
  async function after(name: string, state: LinkState, change: Partial<LinkState>, work: () => Promise<unknown>) {
    await load(state);
    await work();
    if (bounds.isPrompt) await reconcile(state.clock);
    return { name, next: { ...state, ...change, rows: await saved() } };
  }

  async function steps(state: LinkState): Promise<readonly Step<LinkState>[]> {
    const { requests, title, kills, heard, reads, events } = state;
    const found: Step<LinkState>[] = [];
    if (title < bounds.titles)
      found.push(
        await after('the title changes', state, { title: title + 1 }, () =>
          commit((own) => takeBatch(own, [saidOf(titled(title + 1))], 2 + title)),
        ),
      );
    if (JSON.parse(tablesOf(state.rows).get('inbox') ?? '[]').length > 0)
      found.push(await after('answers are processed', state, {}, () => reconcile(state.clock)));
    const sending = await send(state);
    if (sending) found.push(sending);
    for (const [index, request] of requests.entries()) {
      if (request.stands !== 'answered') found.push(...arrivals(state, index, request));
      else found.push(await answered(state, index, request));
    }
    if (kills < bounds.kills && requests.length > 0) found.push(await kill(state));
    if (heard < bounds.events)
      for (const [index, event] of events.entries()) found.push(await hear(state, index, event));
    if (reads < bounds.reads) found.push(...(await look(state)));
    return found;
  }

  async function reconcile(now: number): Promise<void> {
    const pending = await pendingDeliveries(query, 100, 1_000_000);
    const translated = await translateAll(pending, { query, sources: SOURCES, isSuspected: () => false });
    await commit((own) => applyBatch(own, translated, batchContext(now)));
  }

  async function send(state: LinkState): Promise<Step<LinkState> | undefined> {
    const { requests } = state;
    if (requests.filter(({ stands }) => stands !== 'late').length >= AT_ONCE) return undefined;
    await load(state);
    const eligible = { onlyReads: false, withoutRecords: !server.hasRecords };
    const { clock } = state;
    let prepared = await commit((own) => prepareNext(own, { ...eligible, now: clock + DEBOUNCE }));
    let sentAt = clock;
    // Time passes only where nothing else can happen.
    if (!prepared && requests.length === 0 && tablesOf(state.rows).get('inbox') === '[]') {
      const waiting = await database.selectFrom('outbox').select('not_before').execute();
      sentAt = Math.max(clock, ...waiting.map((row) => row.not_before));
      prepared = await commit((own) => prepareNext(own, { ...eligible, now: sentAt + DEBOUNCE }));
    }
    const rows = await saved();
    if (!prepared)
      return rows === state.rows ? undefined : { name: 'nothing is left to send', next: { ...state, rows } };
    const request: Request = { prepared, stands: 'sent' };
    return {
      name: `${titleOf(prepared)} is sent`,
      next: { ...state, rows, clock: sentAt, requests: [...requests, request] },
    };
  }

  /** The server carries a request out, or one of a killed process gets lost. */
  function arrivals(state: LinkState, index: number, request: Request): Step<LinkState>[] {
    const { answer, ...change } = serve(state, request.prepared, server);
    const name = titleOf(request.prepared);
    const without = state.requests.filter((_, place) => place !== index);
    if (request.stands === 'late')
      return [
        { name: `${name} arrives late`, next: { ...state, ...change, requests: without } },
        { name: `${name} never arrives`, next: { ...state, requests: without } },
      ];
    const requests = state.requests.with(index, { ...request, stands: 'answered', answer });
    return [{ name: `${name} arrives`, next: { ...state, ...change, requests } }];
  }

  async function answered(state: LinkState, index: number, { prepared, answer }: Request): Promise<Step<LinkState>> {
    const requests = state.requests.filter((_, place) => place !== index);
    const own = { ...context(state.clock, `r${prepared.revision}`), status: answer?.status };
    return after(`${titleOf(prepared)} is answered`, state, { requests }, () =>
      commit(async (within) => {
        if ((answer?.status ?? 0) < 400) await settle(within, prepared, structuredClone(answer?.body), own);
        else {
          const error = answer?.status === 409 ? CONFLICT : ABSENT;
          await settleFailure(within, prepared, error, own);
        }
      }),
    );
  }

  async function kill(state: LinkState): Promise<Step<LinkState>> {
    const late = state.requests
      .filter(({ stands }) => stands === 'sent')
      .map((each) => ({ ...each, stands: 'late' }) as const);
    return after('the process is killed', state, { requests: late, kills: state.kills + 1 }, () =>
      commit((own) => recover(own, context(state.clock, 'killed'))),
    );
  }

  async function hear(state: LinkState, index: number, { action, body }: Event): Promise<Step<LinkState>> {
    const events = state.events.filter((_, place) => place !== index);
    const answer = { action, entity: '', sentAt: START, body } as const;
    return after(`${JSON.stringify(body)} is heard by ${action}`, state, { events, heard: state.heard + 1 }, () =>
      commit((own) => appendAnswer(own, answer, `e${state.heard}`, START)),
    );
  }

  /** Reads that the sweep causes. */
  async function look(state: LinkState): Promise<Step<LinkState>[]> {
    const names = [...TASKS.map(entity.readLinks), ...(server.hasRecords ? [entity.readPullRequests] : [])];
    const found: Step<LinkState>[] = [];
    for (const name of names)
      found.push(
        await after(`${name} is wanted`, state, { reads: state.reads + 1 }, () =>
          commit((own) => enqueueReads(own, [name], START, 'backfill')),
        ),
      );
    return found;
  }

  const isDone = ({ rows, requests }: LinkState): boolean =>
    requests.length === 0 && tablesOf(rows).get('outbox') === '[]' && tablesOf(rows).get('inbox') === '[]';

  /** Returns the faults of a state in which nothing is left to do. */
  function faults(state: LinkState): readonly string[] {
    if (!isDone(state)) return [];
    const wanted = TASKS[state.title % 2] as string;
    const held = state.links.map(({ taskId }) => taskId);
    const entities = JSON.parse(tablesOf(state.rows).get('entities') ?? '[]') as {
      entity: string;
      hand: string | null;
      known: string | null;
    }[];
    const own = entities.find((row) => row.entity === entity.link(KEY, wanted));
    return [
      ...(held.length === 1 && held[0] === wanted
        ? []
        : [`the server has links to ${held.join(' and ')}, not to ${wanted}`]),
      ...(own?.known == null ? [`the link to ${wanted} is not known`] : []),
      ...entities
        .filter(({ hand }) => hand === 'removed')
        .map((row) => `${row.entity} seems to be removed by a person`),
      ...entities.filter(({ hand }) => hand === 'manual').map((row) => `${row.entity} seems to be added by a person`),
    ];
  }

  return { start, steps, faults, isDone, close: () => store.close() };
}

const ABSENT: Failure = new SyncError('not_found', 'no such link', { status: 404, errorCode: 'not_found', own: true });
const CONFLICT: Failure = new SyncError('conflict', 'there already', { status: 409, errorCode: 'conflict', own: true });

function tablesOf(rows: string): Map<string, string> {
  return new Map(rows === '' ? [] : rows.split('\n').map((text, index) => [TABLES[index] as string, text]));
}

/** Restores the bytes of a JSON text. */
function asBuffer(_key: string, value: unknown): unknown {
  const { type, data } = (value ?? {}) as { readonly type?: unknown; readonly data?: unknown };
  return type === 'Buffer' ? Buffer.from(data as number[]) : value;
}

/**
 * One text for all states that differ only by names and by how many requests were sent: of revisions, only the order counts.
 */
export function keyOf({ rows, links, record, requests, events, clock, ...counts }: LinkState): string {
  const { title, kills, heard, reads } = counts;
  const tables = tablesOf(rows);
  const all = (table: string) => JSON.parse(tables.get(table) ?? '[]', asBuffer) as Record<string, unknown>[];
  const sent = (text: unknown) => JSON.parse(String(text)) as PreparedRequest;
  const stored = [
    all('entities').map(({ written, ...row }) => ({
      ...row,
      known_at: 0,
      isRepeat: String(written).includes('isRepeat'),
    })),
    all('inbox').map(({ body }) => ({ ...JSON.parse(String(body)), sentAt: 0 })),
    all('outbox').map(({ entity: name, state, lane, attempts, not_before, next_since, sent: request }) => ({
      ...{ name, state, lane, attempts, isWanted: next_since !== null, wait: Math.max(0, Number(not_before) - clock) },
      ...(request !== null && {
        action: sent(request).action,
        revision: sent(request).revision,
        age: clock - sent(request).sentAt,
      }),
    })),
    all('meta').map(({ name, value }) => ({ name, [REVISIONS.test(String(name)) ? 'revision' : 'value']: value })),
    requests.map(({ prepared, stands, answer }) => ({
      action: prepared.action,
      taskId: prepared.taskId,
      revision: prepared.revision,
      stands,
      answer,
    })),
  ];
  const found = new Set<number>();
  JSON.stringify(stored, (key, value) =>
    isRevision(key) && value != null ? found.add(Number(value)) && value : value,
  );
  const order = [...found].toSorted((a, b) => a - b);
  const text = JSON.stringify(stored, (key, value) =>
    isRevision(key) && value != null ? order.indexOf(Number(value)) : value,
  );
  return [text, JSON.stringify([links, record, events]), title, kills, heard, reads].join();
}

const REVISIONS = /^(?:revision|read:links:.*)$/;

function isRevision(name: string): boolean {
  return ['revision', 'asOf', 'receivedRevision'].includes(name);
}

function titleOf({ action, taskId, revision }: PreparedRequest): string {
  return [`${revision}`, action, taskId].filter((part) => part !== null).join(' ');
}

type Served = Pick<LinkState, 'links' | 'record' | 'added' | 'events'> & Required<Pick<Request, 'answer'>>;

/** Carries out a request at the server. */
function serve(state: LinkState, { action, body, taskId }: PreparedRequest, server: Server): Served {
  const { links, record, added, events } = state;
  const same = { links, record, added, events };
  const shown = (link: Link) => ({ ...link, url: URL, externalId: server.echoes ? link.externalId : null });
  const recorded = (held: LinkState['record'], all: readonly Link[]) => ({
    ...held,
    taskIds: all.map((each) => each.taskId),
  });
  switch (action) {
    case 'add-link': {
      const present = server.isIdempotent ? links.find((each) => each.taskId === taskId) : undefined;
      if (present) return { ...same, answer: { body: shown(present), status: server.refusesRepetition ? 409 : 200 } };
      const link: Link = { workItemId: `w${added}`, taskId: taskId as string, externalId: externalIdOf(KEY) };
      const event: Event = { action: 'saw-link', body: shown(link) };
      return {
        ...{ links: [...links, link], record, added: added + 1, events: [...events, event] },
        answer: { body: shown(link), status: 201 },
      };
    }
    case 'remove-link': {
      const { workItemId } = body;
      const left = links.filter((each) => each.workItemId !== workItemId);
      if (left.length === links.length) return { ...same, answer: { body: null, status: 404 } };
      const event: Event = { action: 'saw-link-removed', body: { taskId, workItemId } };
      return { ...same, links: left, events: [...events, event], answer: { body: null, status: 204 } };
    }
    case 'read-links':
      return {
        ...same,
        answer: { body: { workItems: links.filter((each) => each.taskId === taskId).map(shown) }, status: 200 },
      };
    case 'record-pull-request':
      return { ...same, record: body, answer: { body: recorded(body, links), status: 200 } };
    case 'read-pull-requests': {
      const pullRequests = record ? [recorded(record, links)] : [];
      return { ...same, answer: { body: { pullRequests, nextCursor: null }, status: 200 } };
    }
    default:
      throw new Error(`${action} is no request of this world`);
  }
}
