import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { connectors } from '../../src/connectors/registry.ts';
import { sourcesOf } from '../../src/daemon/sources.ts';
import { type Action, entity } from '../../src/model/change.ts';
import type { PullRequest } from '../../src/model/item.ts';
import { loadConfig } from '../../src/platform/config/load.ts';
import { systemClock } from '../../src/platform/lib/clock.ts';
import { appendDeliveries } from '../../src/store/deliveries/append-deliveries.ts';
import { appendAnswer } from '../../src/store/workspace/workspace-reads.ts';
import type { Store } from '../../src/store/workspace-scope.ts';
import type { ReconcileConnection } from '../../src/sync/reconcile/context.ts';
import { desiredRecord } from '../../src/sync/reconcile/evaluate-record.ts';
import { createReconcile } from '../../src/sync/reconcile/reconcile.ts';
import { createInlineConverter } from '../../src/sync/worker/converter.ts';
import { apiOverrides } from '../../src/workspace-api/contract.ts';
import { type OpenedStore, openStore } from '../support/harness/store.ts';
import { workspaceContext } from '../support/harness/workspace-context.ts';
import { knowLists } from '../support/rows/records-route.ts';
import { expectPremise } from './bench.ts';
import { databaseFile, NOWHERE, WORKSPACE, writeConfiguration } from './daemon.ts';
import { REPOSITORY } from './deliveries.ts';

export const ITEMS = 100_000;
const AT_ONCE = 500;

type Opened = Awaited<ReturnType<typeof openReconcile>>;

/** The store and the stage as the daemon composes them. @param place of the rows: a file, or an address of PostgreSQL */
export async function openReconcile(folder: string, place = databaseFile(folder)) {
  const path = writeConfiguration(folder);
  const [config] = loadConfig({ path, env: {}, connectors, apiOverrides }).workspaces;
  if (!config) throw new Error('no workspace is configured');
  const sources = sourcesOf(config.connections, connectors, new Map(), createInlineConverter(connectors));
  const store = await openStore({ file: place }, WORKSPACE);
  const reconcile = createReconcile(workspaceContext({ store, clock: systemClock(), version: 'bench', sources }));
  return { store, source: sources.get('github') as ReconcileConnection, reconcile };
}

/** A database in which everything has reached its end: items, their settled deliveries, and records as they should be. */
export async function createKnownItems(folder: string): Promise<string> {
  mkdirSync(join(folder, 'data'));
  const opened = await openReconcile(folder);
  await makeKnown(opened, ITEMS);
  await opened.store.close();
  return folder;
}

/** Fills a database through the pipeline itself: what the workspace says first, then one webhook for each pull request. */
export async function makeKnown({ store, source, reconcile }: Opened, items: number): Promise<void> {
  await knowLists(store.query, NOWHERE);
  await appendRead(store, 'read-tasks', entity.readTasks, { tasks: [] });
  for (let first = 1; first <= items; first += AT_ONCE) {
    const deliveries = Array.from({ length: AT_ONCE }, (_, index) => webhook(first + index));
    const pullRequests = deliveries.map((delivery) => desiredRecord(itemOf(source, delivery), source.connector));
    const nextCursor = first + AT_ONCE > items ? null : String(first);
    await appendRead(store, 'read-pull-requests', entity.readPullRequests, { pullRequests, nextCursor }, first);
    await appendDeliveries(store.query, deliveries, Date.now());
    await reconcile.drain();
  }
  await expectSettled(store, items);
}

export function itemOf(source: ReconcileConnection, delivery: ReturnType<typeof webhook>): PullRequest {
  const translation = source.translate(delivery);
  if (translation.outcome !== 'items') throw new Error('a pull request of the bench is none');
  return translation.items[0] as PullRequest;
}

export function webhook(number: number) {
  const delivery = { connection: 'github', key: `known-${number}`, source: 'webhook', event: 'pull_request' } as const;
  return { ...delivery, id: 0, receivedAt: 0, body: pullEvent(number) };
}

async function appendRead(store: OpenedStore, action: Action, name: string, body: object, page = 0): Promise<void> {
  const answer = { action, entity: name, sentAt: Date.now(), body };
  await appendAnswer(store.query, answer, `${action}:${page}`, Date.now());
}

export async function expectSettled(store: OpenedStore, items = ITEMS): Promise<void> {
  const count = async (table: 'items' | 'outbox' | 'fetches') => {
    const counted = store.query.selectFrom(table).select(({ fn }) => fn.countAll<number>().as('count'));
    return (await counted.executeTakeFirstOrThrow()).count;
  };
  const inbox = store.query.selectFrom('inbox').select(['state', 'reason']).where('state', '!=', 'applied');
  const unsettled = await inbox.limit(1).execute();
  const found = { items: await count('items'), outbox: await count('outbox'), fetches: await count('fetches') };
  const isSettled = found.items === items && found.outbox + found.fetches === 0 && unsettled.length === 0;
  expectPremise(isSettled, `all is settled: ${JSON.stringify({ ...found, unsettled })}`);
}

/** About what people write, so that a slimmed pull request has some 2 kB. */
const DESCRIPTION =
  'What this changes: the pool no longer grows without bound when a tenant is deleted while its jobs run.\n'.repeat(12);

/** One of many pull requests, as GitHub gives it with what nobody reads left out. */
function pullObject(number: number) {
  const updated_at = new Date(Date.UTC(2026, 0, 1) + number * 60_000).toISOString();
  const merged = number % 3 > 0;
  return {
    number,
    updated_at,
    state: merged ? 'closed' : 'open',
    title: `Close the pool of tenant ${number}`,
    body: DESCRIPTION,
    draft: number % 7 === 0,
    merged_at: merged ? updated_at : null,
    created_at: '2026-01-01T00:00:00Z',
    html_url: `https://github.com/${REPOSITORY}/pull/${number}`,
    user: { login: 'mona' },
    labels: [{ name: 'bug' }, { name: `area-${number % 20}` }],
    assignees: [{ login: 'hubot' }],
    requested_reviewers: [{ login: 'octocat' }],
    requested_teams: [],
    head: { ref: `tenant-${number}`, sha: number.toString(16).padStart(40, '0') },
    base: { ref: 'main', repo: { id: 186_853_002, full_name: REPOSITORY } },
  };
}

function pullEvent(number: number): Buffer {
  return Buffer.from(JSON.stringify({ action: 'edited', number, pull_request: pullObject(number) }));
}

export const PAGE = 100;

interface Telling {
  readonly items?: number;
  readonly source?: 'poll' | 'backfill';
  /** They say something else than is known already. */
  readonly isNew?: boolean;
}

/** Pages that tell of all items, or of the first so many, as if their vendor listed them. */
export async function appendPages(
  { query }: Pick<Store, 'query'>,
  { items = ITEMS, source = 'poll', isNew = false }: Telling = {},
): Promise<void> {
  for (let first = 1; first <= items; first += PAGE) {
    const pulls = Array.from({ length: PAGE }, (_, index) => told(first + index, isNew));
    const body = Buffer.from(JSON.stringify(pulls));
    const key = `page-${isNew ? 'new-' : ''}${first}`;
    await appendDeliveries(query, [{ connection: 'github', key, source, event: 'pulls.list', body }], Date.now());
  }
}

function told(number: number, isNew: boolean): object {
  const pull = pullObject(number);
  if (!isNew) return pull;
  const updated_at = new Date(Date.parse(pull.updated_at) + 1_000).toISOString();
  return { ...pull, updated_at, title: `${pull.title}, and of earlier ones` };
}
