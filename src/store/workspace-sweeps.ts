import { FINDINGS, type Finding } from '../model/foreign-edits.ts';
import type { EntityRow } from './entities.ts';
import { ALL_ROWS, type CachedRow } from './unit-of-work/cached-tables.ts';
import { flushRows, removeRows, rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import { type Scope, type Sql, scopeOf } from './workspace-scope.ts';

/**
 * A round of the workspace sweep. It begins with a row and with requests for two lists; their answers advance it, whenever they
 * come, also over restarts, and end it when both have been compared with what is known.
 */
export type Sweep = CachedRow<'workspace_sweeps'>;

/** @returns the round that runs, begun now where none did */
export async function beginSweep(
  query: Scope,
  now: number,
): Promise<{ readonly sweep: Sweep; readonly isNew: boolean }> {
  const running = await openSweep(query);
  const before = await latestSweep(query);
  // What a clock that was set back since asks for seems to be older than the round, which never ends.
  if (running && running.started_at <= now) return { sweep: running, isNew: false };
  if (running) await query.deleteFrom('workspace_sweeps').where('id', '=', running.id).execute();
  await query.deleteFrom('workspace_listed').execute();
  const sweep = await query
    .insertInto('workspace_sweeps')
    .values({ id: (before?.id ?? 0) + 1, started_at: now })
    .returningAll()
    .executeTakeFirstOrThrow();
  return { sweep, isNew: true };
}

export async function openSweep(query: Scope): Promise<Sweep | undefined> {
  return (await rounds(query)).find(({ finished_at }) => finished_at === null);
}

/** The round that began last: what is found outside its lists, such as links of work items, is told with it. */
async function latestSweep(query: Scope): Promise<Sweep | undefined> {
  return (await rounds(query)).toSorted((left, right) => right.id - left.id)[0];
}

function rounds(query: Scope): Promise<readonly Sweep[]> {
  return rowsWhere(query, 'workspace_sweeps', 'workspace', [ALL_ROWS]);
}

/** The list of tasks has been compared. */
export async function tasksSwept(query: Scope, sweep: Sweep, tasks: number, now: number): Promise<Sweep | undefined> {
  return update(query, { ...sweep, tasks, tasks_at: now }, now);
}

/** The first page of the list of records: what is listed from here on counts. */
export async function beginList(query: Scope, sweep: Sweep, sentAt: number): Promise<Sweep> {
  await query.deleteFrom('workspace_listed').execute();
  const begun = { ...sweep, list_began_at: sentAt };
  await save(query, begun);
  return begun;
}

/** A page that comes twice, after a kill between its answer and the next request, counts once. */
export async function noteListed(query: Scope, entities: readonly string[]): Promise<void> {
  if (entities.length === 0) return;
  await query
    .insertInto('workspace_listed')
    .values([...new Set(entities)].map((entity) => ({ entity })))
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

export async function countListed(query: Scope): Promise<number> {
  const { count } = await query
    .selectFrom('workspace_listed')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}

/** The list of records, and what it lacks, has been compared. */
export async function recordsSwept(query: Scope, sweep: Sweep, now: number): Promise<Sweep | undefined> {
  const records = await countListed(query);
  await query.deleteFrom('workspace_listed').execute();
  return update(query, { ...sweep, records, records_at: now }, now);
}

/** @returns the round where this ends it; those before it, and what they found, are forgotten */
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

/** Told with the round that began last; where none ever did, nobody asked for it. */
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

/** Rows compared in one transaction. */
const COMPARED = 100;

/**
 * Records that are known to stand there and that a complete list lacks, and where to go on; of what was written since, it says
 * nothing.
 */
export async function absentRecords(
  query: Scope,
  { listBegan, after }: { readonly listBegan: number; readonly after: string },
): Promise<{ readonly absent: readonly EntityRow[]; readonly next?: string }> {
  const rows = await query
    .selectFrom('entities')
    .select(['entity', 'known_at'])
    .where('entity', '>', after)
    .where('entity', '<', 'pull_request;')
    .where('kind', '=', 'pull_request')
    .where('known', 'is not', null)
    .orderBy('entity')
    .limit(COMPARED)
    .execute();
  const names = rows.filter(({ known_at }) => (known_at ?? 0) < listBegan).map(({ entity }) => entity);
  const absent = await query
    .selectFrom('entities')
    .selectAll()
    .where('entity', 'in', ['', ...names])
    .where('entity', 'not in', query.selectFrom('workspace_listed').select('entity'))
    .execute();
  const next = rows.length < COMPARED ? undefined : rows.at(-1)?.entity;
  return next === undefined ? { absent } : { absent, next };
}

/** A round, and what it found. Times are epoch milliseconds. */
export interface SweepReport {
  readonly startedAt: number;
  /** Null while it runs. */
  readonly finishedAt: number | null;
  /** How many it listed; 0 while the list has not been compared. */
  readonly tasks: number;
  readonly records: number;
  readonly found: Readonly<Record<Finding, number>>;
  /** What became of the records that differ: repaired; waiting for repair; held for approval. */
  readonly repairs: { readonly done: number; readonly waiting: number; readonly held: number };
  /** The latest of what was found. */
  readonly latest: readonly { readonly what: Finding; readonly entity: string; readonly at: number }[];
}

/** The report of the sweep: the running round, and the last one that ended. */
export interface SweepReports {
  readonly running: SweepReport | null;
  readonly last: SweepReport | null;
}

export async function readSweeps({ whole, workspace }: Scope): Promise<SweepReports> {
  const reports = await sweepsOf(whole, [workspace]);
  return reports(workspace);
}

/** The same of several workspaces. Rounds that found something are few: their lists are read one by one. */
export async function sweepsOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<(workspace: number) => SweepReports> {
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
  const counts = Map.groupBy(counted, ({ workspace, sweep }) => roundOf(workspace, sweep));
  const reports = new Map<number, SweepReports>();
  for (const [workspace, all] of Map.groupBy(rows, (row) => row.workspace)) {
    const latest = all.slice(0, 2);
    const report = async (round: Sweep | undefined) =>
      round ? reportOf(scopeOf(query, workspace), round, counts.get(roundOf(workspace, round.id)) ?? []) : null;
    const running = await report(latest.find(({ finished_at }) => finished_at === null));
    const last = await report(latest.find(({ finished_at }) => finished_at !== null));
    reports.set(workspace, { running, last });
  }
  return (workspace) => reports.get(workspace) ?? { running: null, last: null };
}

function roundOf(workspace: number, sweep: number): string {
  return `${workspace}/${sweep}`;
}

const SHOWN = 20;

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
    .limit(SHOWN)
    .execute();
}

/** A record that no change waits for has been written. */
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
