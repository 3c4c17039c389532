import { FINDINGS, type Finding } from '../../model/foreign-edits.ts';
import type { EntityRow } from '../changes/entities.ts';
import { findItems, readFields } from '../items/items.ts';
import { readMeta, writeMeta } from '../meta.ts';
import { ALL_ROWS, type CachedRow } from '../unit-of-work/cached-tables.ts';
import { flushRows, removeRows, rowsWhere, saveRows } from '../unit-of-work/unit-of-work.ts';
import { type ByWorkspace, countRows, json, type Scope, type Sql, scopeOf } from '../workspace-scope.ts';
import { readRecordsRoute } from './server-capabilities.ts';

/**
 * The stored position of the part of the workspace sweep that reads single tasks and documents. No list contains the links of work
 * items, links with an address from before a rename, and attached documents. If pull requests are not recorded in the workspace,
 * the sweep also reads the tasks without known links, because nothing else shows which links people added.
 * Times are epoch milliseconds.
 */
export interface SweepPosition {
  readonly startedAt: number;
  /** Null while the sweep runs. */
  readonly endedAt: number | null;
  /** When the last resource was requested. */
  readonly readAt: number;
  /** Number of requested resources. */
  readonly read: number;
  /** The last requested resource. Tasks with known links are first, then documents, then all other tasks. */
  readonly after: SweepResource;
}

interface SweepResource {
  readonly kind: 'link' | 'document' | 'task';
  /** Id of the task, or entity of the document. */
  readonly name: string;
}

/** A stored name, older than the term position. */
const POSITION = 'workspace_turn';

export async function readSweepPosition(query: Scope): Promise<SweepPosition | undefined> {
  return json<SweepPosition>((await readMeta(query, POSITION)) ?? null);
}

/** Returns the positions of several workspaces. */
export async function sweepPositionsOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<ByWorkspace<SweepPosition | undefined>> {
  const rows = await query
    .selectFrom('meta')
    .select(['workspace', 'value'])
    .where('workspace', 'in', workspaces)
    .where('name', '=', POSITION)
    .execute();
  const values = new Map(rows.map((row) => [row.workspace, row.value]));
  return (workspace) => json<SweepPosition>(values.get(workspace) ?? null);
}

export async function writeSweepPosition(query: Scope, position: SweepPosition): Promise<void> {
  await writeMeta(query, POSITION, JSON.stringify(position));
}

/** The position before all resources. */
export const SWEEP_START: SweepResource = { kind: 'link', name: '' };

/** Rows read by one statement. It is short, so that no other work waits for it. */
const PAGE_SIZE = 500;

export interface SweepStep {
  readonly found?: SweepResource;
  readonly after?: SweepResource;
}

/**
 * Searches one page of rows for the next resource to read. Returns it, or the position of the next step; neither at the end of the
 * sweep.
 */
export async function nextSweepStep(query: Scope, { kind, name }: SweepResource): Promise<SweepStep> {
  if (kind === 'link') return nextLinks(query, name);
  return kind === 'document' ? nextDocument(query, name) : nextUnlinkedTask(query, name);
}

/**
 * Finds the next task with a link of a work item, or with a link that no record lists. If pull requests are not recorded in the
 * workspace, these are all tasks with links.
 */
async function nextLinks(query: Scope, after: string): Promise<SweepStep> {
  const rows = await query
    .selectFrom('entities')
    .select(['task_id', 'item_key', 'known', 'desired'])
    .where('task_id', '>', after)
    .where('kind', '=', 'link')
    .where(({ or, eb }) => or([eb('hand', 'is', null), eb('hand', '!=', 'gone')]))
    .orderBy('task_id')
    .limit(PAGE_SIZE)
    .execute();
  const keys = rows.flatMap(({ item_key }) => item_key ?? []);
  const items = query.selectFrom('items').select('key').where('kind', '=', 'work_item');
  const named = await items.where('key', 'in', ['', ...keys]).execute();
  const workItems = new Set(named.map(({ key }) => key));
  const isOfWorkItem = ({ item_key }: LinkRow) => workItems.has(item_key ?? '');
  const ofPulls = rows.filter((row) => !isOfWorkItem(row));
  const unlisted = new Set(await withOtherAddress(query, ofPulls));
  const areListed = (await readRecordsRoute(query)).state === 'open';
  const found = rows.find((row) => isOfWorkItem(row) || unlisted.has(row) || !areListed)?.task_id;
  if (found) return { found: { kind: 'link', name: found } };
  const last = rows.at(-1)?.task_id;
  // Skips the other links of a task with more links than a page. People do not add so many by hand.
  return { after: last && rows.length === PAGE_SIZE ? { kind: 'link', name: last } : { kind: 'document', name: '' } };
}

type LinkRow = Pick<EntityRow, 'item_key' | 'known' | 'desired'>;

/**
 * Returns the links whose address differs from the present one of their item. A record lists only the tasks that are linked to
 * its own address, and not a link from before the repository was renamed.
 */
async function withOtherAddress(query: Scope, rows: readonly LinkRow[]): Promise<readonly LinkRow[]> {
  const existing = rows.filter(({ known }) => known !== null);
  // The desired state of a link that only a person added is empty, so the present address comes from the item.
  const keys = existing.flatMap(({ item_key, desired }) => (desired === null && item_key !== null ? [item_key] : []));
  const items = keys.length === 0 ? [] : await findItems(query, keys);
  const urls = new Map(items.map((row) => [row.key as string, readFields(row).item.url]));
  return existing.filter(({ item_key, known, desired }) => {
    const [from, to] = [json(known)?.['url'], json(desired)?.['url'] ?? urls.get(item_key ?? '')];
    return from !== undefined && to !== undefined && from !== to;
  });
}

/** Finds the next document that is attached to the task of its entity. */
async function nextDocument(query: Scope, after: string): Promise<SweepStep> {
  const rows = await query
    .selectFrom('entities')
    .select(['entity', 'task_id', 'known'])
    .where('entity', '>', after === '' ? 'document:' : after)
    .where('entity', '<', 'document;')
    .where('kind', '=', 'document')
    .orderBy('entity')
    .limit(PAGE_SIZE)
    .execute();
  const found = rows.find(({ known, task_id }) => task_id !== null && json(known)?.['taskId'] === task_id);
  if (found) return { found: { kind: 'document', name: found.entity } };
  const last = rows.at(-1)?.entity;
  if (last && rows.length === PAGE_SIZE) return { after: { kind: 'document', name: last } };
  return (await readRecordsRoute(query)).state === 'open' ? {} : { after: { kind: 'task', name: '' } };
}

/** Finds the next cached task without a known link. */
async function nextUnlinkedTask(query: Scope, after: string): Promise<SweepStep> {
  const next = query.selectFrom('tasks').select('task_id').where('task_id', '>', after);
  const rows = await next.orderBy('task_id').limit(PAGE_SIZE).execute();
  const ids = rows.map(({ task_id }) => task_id);
  const linked = await query
    .selectFrom('entities')
    .select('task_id')
    .where('task_id', 'in', ['', ...ids])
    .where('kind', '=', 'link')
    .where(({ or, eb }) => or([eb('hand', 'is', null), eb('hand', '!=', 'gone')]))
    .execute();
  const isLinked = new Set(linked.map(({ task_id }) => task_id));
  const found = ids.find((id) => !isLinked.has(id));
  if (found !== undefined) return { found: { kind: 'task', name: found } };
  const last = ids.at(-1);
  return last !== undefined && ids.length === PAGE_SIZE ? { after: { kind: 'task', name: last } } : {};
}

/**
 * A round of the workspace sweep. It begins with a row and with requests for two lists. Their answers advance it, even after a
 * restart. It ends when both lists have been compared with the known state.
 */
export type Sweep = CachedRow<'workspace_sweeps'>;

/** Begins a round, unless one is running. @returns the running round */
export async function beginSweep(query: Scope, now: number) {
  const running = await findRunningSweep(query);
  const previous = await latestSweep(query);
  // A round from the future began before the clock was set back. Lists that are requested now would be older, so it could not end.
  if (running && running.started_at <= now) return { sweep: running, isNew: false };
  if (running) await query.deleteFrom('workspace_sweeps').where('id', '=', running.id).execute();
  await query.deleteFrom('workspace_listed').execute();
  const sweep = await query
    .insertInto('workspace_sweeps')
    .values({ id: (previous?.id ?? 0) + 1, started_at: now })
    .returningAll()
    .executeTakeFirstOrThrow();
  return { sweep, isNew: true };
}

export async function findRunningSweep(query: Scope): Promise<Sweep | undefined> {
  return (await rounds(query)).find(({ finished_at }) => finished_at === null);
}

/** Returns the round that began last. Findings outside its lists, such as links of work items, belong to it. */
async function latestSweep(query: Scope): Promise<Sweep | undefined> {
  return (await rounds(query)).toSorted((left, right) => right.id - left.id)[0];
}

function rounds(query: Scope): Promise<readonly Sweep[]> {
  return rowsWhere(query, 'workspace_sweeps', 'workspace', [ALL_ROWS]);
}

/** Records that the list of tasks has been compared. @returns the round if it is complete */
export async function tasksSwept(query: Scope, sweep: Sweep, tasks: number, now: number): Promise<Sweep | undefined> {
  return update(query, { ...sweep, tasks, tasks_at: now }, now);
}

/** Begins to collect the listed records, at the first page of their list. */
export async function beginList(query: Scope, sweep: Sweep, sentAt: number): Promise<Sweep> {
  await query.deleteFrom('workspace_listed').execute();
  const begun = { ...sweep, list_began_at: sentAt };
  await save(query, begun);
  return begun;
}

/** Adds listed records. A page that is received again, after a crash before the next request, counts once. */
export async function noteListed(query: Scope, entities: readonly string[]): Promise<void> {
  if (entities.length === 0) return;
  await query
    .insertInto('workspace_listed')
    .values([...new Set(entities)].map((entity) => ({ entity })))
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

export async function countListed(query: Scope): Promise<number> {
  return countRows(query.selectFrom('workspace_listed'));
}

/** Records that the list of records and the missing records have been compared. @returns the round if it is complete */
export async function recordsSwept(query: Scope, sweep: Sweep, now: number): Promise<Sweep | undefined> {
  const records = await countListed(query);
  await query.deleteFrom('workspace_listed').execute();
  return update(query, { ...sweep, records, records_at: now }, now);
}

/** Saves a round. If both lists have been compared, ends it, deletes earlier rounds with their findings, and returns it. */
async function update(query: Scope, sweep: Sweep, now: number): Promise<Sweep | undefined> {
  const isDone = sweep.tasks_at !== null && sweep.records_at !== null;
  const next = isDone ? { ...sweep, finished_at: now } : sweep;
  await save(query, next);
  if (!isDone) return undefined;
  const before = (await rounds(query)).filter(({ id }) => id < sweep.id);
  await removeRows(query, 'workspace_sweeps', before);
  await flushRows(query);
  await query.deleteFrom('workspace_findings').where('sweep', '<', sweep.id).execute();
  return next;
}

async function save(query: Scope, sweep: Sweep): Promise<void> {
  await saveRows(query, 'workspace_sweeps', [sweep]);
}

/** Adds findings to the last round. Without any round they are not stored, because no sweep was requested. */
export async function addFindings(
  query: Scope,
  findings: readonly { readonly what: Finding; readonly entity: string }[],
  now: number,
): Promise<void> {
  const sweep = findings.length === 0 ? undefined : await latestSweep(query);
  if (!sweep) return;
  const rows = findings.map(({ what, entity }) => ({ sweep: sweep.id, what, entity, found_at: now }));
  await saveRows(query, 'workspace_findings', rows);
}

/** Records compared in one transaction. */
const RECORDS_PER_PAGE = 100;

/**
 * Returns known records that are missing in a complete list; `next` is the position of the next page. Records that were written
 * after the list began are left out.
 */
export async function absentRecords(
  query: Scope,
  { listBegan, after }: { readonly listBegan: number; readonly after: string },
) {
  const rows = await query
    .selectFrom('entities')
    .select(['entity', 'known_at'])
    .where('entity', '>', after)
    .where('entity', '<', 'pull_request;')
    .where('kind', '=', 'pull_request')
    .where('known', 'is not', null)
    .orderBy('entity')
    .limit(RECORDS_PER_PAGE)
    .execute();
  const names = rows.filter(({ known_at }) => (known_at ?? 0) < listBegan).map(({ entity }) => entity);
  const absent = await query
    .selectFrom('entities')
    .selectAll()
    .where('entity', 'in', ['', ...names])
    .where('entity', 'not in', query.selectFrom('workspace_listed').select('entity'))
    .execute();
  return { absent, next: rows.length < RECORDS_PER_PAGE ? undefined : rows.at(-1)?.entity };
}

/** A round and its findings. Times are epoch milliseconds. */
export interface SweepReport {
  readonly startedAt: number;
  /** Null while it runs. */
  readonly finishedAt: number | null;
  /** Number of listed tasks; 0 until the list has been compared. Likewise `records`. */
  readonly tasks: number;
  readonly records: number;
  readonly found: Readonly<Record<Finding, number>>;
  /** Numbers of different records: repaired, waiting for repair, held. */
  readonly repairs: { readonly done: number; readonly waiting: number; readonly held: number };
  /** The latest findings. */
  readonly latest: readonly { readonly what: Finding; readonly entity: string; readonly at: number }[];
}

/** The reports of the running round and of the last complete one. */
export interface SweepReports {
  readonly running: SweepReport | null;
  readonly last: SweepReport | null;
}

export async function readSweeps({ whole, workspace }: Scope): Promise<SweepReports> {
  return (await sweepsOf(whole, [workspace]))(workspace);
}

/** Returns the reports of several workspaces. Few rounds have findings, so the findings are read one round at a time. */
export async function sweepsOf(query: Sql, workspaces: readonly number[]): Promise<ByWorkspace<SweepReports>> {
  const rows = await query
    .selectFrom('workspace_sweeps')
    .selectAll()
    .where('workspace', 'in', workspaces)
    .orderBy('workspace', 'desc')
    .orderBy('id', 'desc')
    .execute();
  const counted = await query
    .selectFrom('workspace_findings')
    .select(({ fn }) => ['workspace', 'sweep', 'what', fn.countAll<number>().as('count')])
    .where('workspace', 'in', workspaces)
    .groupBy(['workspace', 'sweep', 'what'])
    .execute();
  const counts = Map.groupBy(counted, ({ workspace, sweep }) => roundKey(workspace, sweep));
  const reports = new Map<number, SweepReports>();
  for (const [workspace, all] of Map.groupBy(rows, (row) => row.workspace)) {
    const latest = all.slice(0, 2);
    const report = async (round: Sweep | undefined) =>
      round ? reportOf(scopeOf(query, workspace), round, counts.get(roundKey(workspace, round.id)) ?? []) : null;
    const running = await report(latest.find(({ finished_at }) => finished_at === null));
    const last = await report(latest.find(({ finished_at }) => finished_at !== null));
    reports.set(workspace, { running, last });
  }
  return (workspace) => reports.get(workspace) ?? { running: null, last: null };
}

function roundKey(workspace: number, sweep: number): string {
  return `${workspace}/${sweep}`;
}

/** Findings shown in a report. */
const MAX_FINDINGS = 20;

async function reportOf(
  query: Scope,
  sweep: Sweep,
  counted: readonly { readonly what: Finding; readonly count: number }[],
): Promise<SweepReport> {
  const found = Object.fromEntries(FINDINGS.map((what) => [what, 0])) as Record<Finding, number>;
  for (const { what, count } of counted) found[what] = count;
  return {
    startedAt: sweep.started_at,
    finishedAt: sweep.finished_at,
    tasks: sweep.tasks,
    records: sweep.records,
    found,
    repairs: await repairsOf(query, sweep, found['record-changed'] + found['record-missing']),
    latest: counted.length === 0 ? [] : await latestFindings(query, sweep),
  };
}

function latestFindings(query: Scope, { id }: Sweep): Promise<SweepReport['latest'][number][]> {
  return query
    .selectFrom('workspace_findings')
    .select(['what', 'entity', 'found_at as at'])
    .where('sweep', '=', id)
    .orderBy('found_at', 'desc')
    .orderBy('entity')
    .limit(MAX_FINDINGS)
    .execute();
}

/** Counts the repairs. A record without a change in the outbox is repaired. */
async function repairsOf(query: Scope, { id }: Sweep, all: number): Promise<SweepReport['repairs']> {
  if (all === 0) return { done: 0, waiting: 0, held: 0 };
  const rows = await query
    .selectJoined(['workspace_findings', 'entity'], ['outbox', 'entity'])
    .select(({ fn }) => ['outbox.state', fn.countAll<number>().as('count')])
    .where('workspace_findings.sweep', '=', id)
    .where('workspace_findings.what', 'in', ['record-changed', 'record-missing'])
    .groupBy('outbox.state')
    .execute();
  const held = rows.find(({ state }) => state === 'held')?.count ?? 0;
  const waiting = rows.reduce((sum, { count }) => sum + count, 0) - held;
  return { done: all - held - waiting, waiting, held };
}
