import { type Compilable, sql } from 'kysely';
import { CHANGE_STATES } from '../model/change.ts';
import { type CompiledStatement, compileStatement } from './compiled-statement.ts';
import { findChange, type OutboxRow } from './outbox-rows.ts';
import type { Queue } from './schema/tables.ts';
import { type Scope, scopeOf } from './workspace-scope.ts';

/** What may go at present. */
export interface Eligibility {
  readonly now: number;
  /** Only the first reads may go while the workspace's present content is not known. */
  readonly onlyReads: boolean;
  readonly onlyWrites?: boolean;
  /** Records wait: nobody knows yet whether the workspace has their route. */
  readonly withoutRecords?: boolean;
  /** Nothing gets through at present: those that failed last go last, so that none stands in the way of the others. */
  readonly retriesLast?: boolean;
  /** By how much changes go ahead of their due time, milliseconds: the quota could not serve all of them in time. */
  readonly leadTime?: number;
}

/** A change and when it may be sent, epoch milliseconds. */
export interface DueChange {
  readonly entity: string;
  readonly at: number;
  readonly due: number;
  readonly lane: OutboxRow['lane'];
}

const LIVE: readonly Queue[] = ['read', 'live', 'finished'];

/** The age of a finished item counts a tenth more: what is written of it stays true. */
const FINISHED = 1.1;

/**
 * The change that is to be sent now: the one that has been due longest, of finished items a little earlier; those of a
 * backfill only where nothing else is due.
 *
 * Within one queue the order does not depend on the time, so that an index answers; the first of each are compared here.
 */
async function readyChange(query: Scope, eligible: Eligibility): Promise<DueChange | undefined> {
  const firsts = await firstOfEach(query, eligible, queuesOf(eligible));
  return best(firsts, eligible);
}

function best(firsts: readonly First[], eligible: Eligibility): DueChange | undefined {
  const live = firsts.filter(({ queue }) => queue !== 'backfill');
  const [next] = (live.length > 0 ? live : firsts).toSorted((a, b) => before(a, b, eligible));
  return next && { entity: next.entity, at: eligible.now, due: next.due, lane: next.lane };
}

type First = Pick<OutboxRow, 'entity' | 'lane' | 'due' | 'not_before'> & { readonly queue: Queue };

function before(a: First, b: First, { now, retriesLast }: Eligibility): number {
  const age = ({ queue, due }: First) => (now - due) * (queue === 'finished' ? FINISHED : 1);
  return (retriesLast ? a.not_before - b.not_before : 0) || age(b) - age(a) || (a.entity < b.entity ? -1 : 1);
}

/** Values of a statement that asks what may go. */
interface Moment {
  readonly workspace: number;
  readonly now: number;
  /** Changes due by then go now. */
  readonly until: number;
}

function momentOf({ workspace }: Scope, { now, leadTime = 0 }: Eligibility): Moment {
  return { workspace, now, until: now + leadTime };
}

function firstOfEach(query: Scope, eligible: Eligibility, queues: readonly Queue[]): Promise<readonly First[]> {
  const { retriesLast = false } = eligible;
  const statement = standingFor(`first ${retriesLast}`, eligible, queues, (scope, { now, until }) => {
    const first = (queue: Queue) => {
      const ready = waitingIn(scope, queue, eligible)
        .where('due', '<=', until)
        .where('not_before', '<=', now)
        .$if(retriesLast, (rows) => rows.orderBy('not_before'))
        .orderBy('due')
        .orderBy('entity')
        .limit(1);
      return scope.selectOver(ready.as(queue)).selectAll();
    };
    return unionOf(queues.map(first));
  });
  return statement(query.whole, momentOf(query, eligible));
}

const statements = new Map<string, CompiledStatement<Moment, First>>();

/** The statement of this name for these queues: few different ones are ever asked. */
function standingFor(
  name: string,
  { onlyWrites = false, withoutRecords = false }: Eligibility,
  queues: readonly Queue[],
  build: (scope: Scope, moment: Moment) => Compilable<First>,
): CompiledStatement<Moment, First> {
  const key = [name, onlyWrites, withoutRecords, ...queues].join(' ');
  const known = statements.get(key);
  if (known) return known;
  const statement = compileStatement<Moment, First>((query, moment) => build(scopeOf(query, moment.workspace), moment));
  statements.set(key, statement);
  return statement;
}

/** The whole row of the change that is to be sent now. */
export async function nextChange(query: Scope, eligible: Eligibility): Promise<OutboxRow | undefined> {
  const ready = await readyChange(query, eligible);
  return ready && findChange(query, ready.entity);
}

/** When the next change may be sent, and how urgent it is; undefined when none waits. */
export async function nextDue(query: Scope, eligible: Eligibility): Promise<DueChange | undefined> {
  if (!(await isAnyPending(query))) return undefined;
  return (await readyChange(query, eligible)) ?? earliest(query, eligible, queuesOf(eligible));
}

/** Most workspaces have nothing to send most of the time: that is told by one look at an index. */
async function isAnyPending(query: Scope): Promise<boolean> {
  return (await anyPending(query.whole, { workspace: query.workspace })).length > 0;
}

const anyPending = compileStatement<Pick<Scope, 'workspace'>, { readonly entity: string }>((query, { workspace }) =>
  scopeOf(query, workspace).selectFrom('outbox').select('entity').where('state', '=', 'pending').limit(1),
);

/** When the first change that goes before all backfills may be sent. */
export async function nextLive(query: Scope, eligible: Eligibility): Promise<DueChange | undefined> {
  const live = queuesOf(eligible).filter((queue) => queue !== 'backfill');
  return best(await firstOfEach(query, eligible, live), eligible) ?? earliest(query, eligible, live);
}

/** Where nothing is ready: of those that are not yet due the first, and of those that failed the first whose pause ends. */
async function earliest(query: Scope, eligible: Eligibility, queues: readonly Queue[]): Promise<DueChange | undefined> {
  const { leadTime = 0 } = eligible;
  const statement = standingFor('earliest', eligible, queues, (scope, { now, until }) => {
    const soonest = (queue: Queue) => {
      const later = waitingIn(scope, queue, eligible).where('due', '>', until).where('not_before', '<=', now);
      const first = later.orderBy('due').orderBy('entity').limit(1);
      return scope.selectOver(first.as(queue)).selectAll();
    };
    const resumed = (queue: Queue) => {
      const first = waitingIn(scope, queue, eligible).where('not_before', '>', now).orderBy('not_before').limit(1);
      return scope.selectOver(first.as(queue)).selectAll();
    };
    return unionOf([...queues.map(soonest), ...queues.map(resumed)]);
  });
  const rows = await statement(query.whole, momentOf(query, eligible));
  const times = rows.map(({ entity, due, lane, not_before }) => {
    return { entity, due, lane, at: Math.max(due - leadTime, not_before) };
  });
  return times.toSorted((a, b) => a.at - b.at)[0];
}

/** When the first so many live changes are due, ascending. */
export async function firstDueTimes(query: Scope, count: number): Promise<number[]> {
  const rows = await firstLive(query.whole, { workspace: query.workspace, count });
  return rows
    .map(({ due }) => due)
    .toSorted((a, b) => a - b)
    .slice(0, count);
}

const firstLive = compileStatement((query, { workspace, count }: { workspace: number; count: number }) => {
  const scope = scopeOf(query, workspace);
  const first = (queue: Queue) => waitingIn(scope, queue).orderBy('due').orderBy('entity').limit(count);
  return unionOf(LIVE.map((queue) => scope.selectOver(first(queue).as(queue)).selectAll()));
});

/** No change is made to wait longer than this, milliseconds: `task-creations.ts` makes them wait longest. */
const LONGEST_PAUSE = 1_000_000;

/**
 * What came in the future, or waits further ahead than anything is made to wait, is from a clock that has since been set
 * back: it counts as come just now. So does what is held or on its way, which may be sent again.
 *
 * @returns how many there were
 */
export async function clampChangeTimes(query: Scope, now: number): Promise<number> {
  const changes = query
    .updateTable('outbox')
    .where('state', 'in', CHANGE_STATES)
    .where('queue', 'in', [...LIVE, 'backfill']);
  // A change is due no earlier than it came, and the index knows due times.
  const came = await changes
    .set({ since: now, due: now })
    .where('due', '>', now)
    .where('since', '>', now)
    .executeTakeFirst();
  const paused = await changes
    .set({ not_before: 0 })
    .where('not_before', '>', now + LONGEST_PAUSE)
    .executeTakeFirst();
  const changed = await query
    .updateTable('outbox')
    .where('state', 'in', ['sending', 'unknown'])
    .set({ next_since: now })
    .where('next_since', '>', now)
    .executeTakeFirst();
  return Number(came.numUpdatedRows + paused.numUpdatedRows + changed.numUpdatedRows);
}

const COLUMNS = ['entity', 'queue', 'lane', 'due', 'not_before'] as const;

function waitingIn(
  query: Scope,
  queue: Queue,
  { onlyWrites = false, withoutRecords = false }: Pick<Eligibility, 'onlyWrites' | 'withoutRecords'> = {},
) {
  return query
    .selectFrom('outbox')
    .select(COLUMNS)
    .where('state', '=', 'pending')
    .where('queue', '=', sql.lit(queue))
    .$if(onlyWrites, (rows) => rows.where('kind', '!=', 'read'))
    .$if(withoutRecords, (rows) => rows.where('kind', '!=', 'pull_request'));
}

function queuesOf({ onlyReads, onlyWrites = false }: Eligibility): readonly Queue[] {
  if (onlyReads) return ['read'];
  return onlyWrites ? ['live', 'finished', 'backfill'] : [...LIVE, 'backfill'];
}

function unionOf<Part extends { unionAll(other: Part): Part }>([first, ...others]: readonly Part[]): Part {
  if (first === undefined) throw new Error('a union of nothing');
  return others.reduce((all, other) => all.unionAll(other), first);
}
