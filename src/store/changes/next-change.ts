import { type Compilable, sql } from 'kysely';
import { CHANGE_STATES } from '../../model/change.ts';
import { QUEUES, type Queue } from '../schema/tables.ts';
import { changedRows, compileInScope, type Scope } from '../workspace-scope.ts';
import type { OutboxRow } from './outbox-rows.ts';

/** The changes that may be sent at present. */
export interface Eligibility {
  readonly now: number;
  /** Only reads may be sent, because the content of the workspace is not known yet. */
  readonly onlyReads: boolean;
  readonly onlyWrites?: boolean;
  /** Records wait until it is known whether the workspace has their route. */
  readonly withoutRecords?: boolean;
  /** While all requests fail: the change that failed last comes last, so that none blocks the others. */
  readonly retriesLast?: boolean;
  /** How long before their due time changes may be sent, because the quota could not serve all in time. Milliseconds. */
  readonly leadTime?: number;
}

/** A change and its times, epoch milliseconds. */
export interface DueChange {
  readonly entity: string;
  /** When it may be sent. */
  readonly at: number;
  readonly due: number;
  readonly lane: OutboxRow['lane'];
}

const LIVE = QUEUES.filter((queue) => queue !== 'backfill');

/** Weight of the time since a change of a finished item was due, because the written state of such an item stays true. */
const FINISHED_WEIGHT = 1.1;

/**
 * Returns the change to send now: the one that has been due longest, of finished items a little earlier. While the quota is too short
 * to send a status change when it is due, reads and links go first, then status changes, then mirrors. A change of a backfill is returned
 * only if nothing else is due.
 *
 * The order within one queue does not depend on the time, so that an index gives it. Only the first changes of the queues are
 * compared here.
 */
export async function nextChange(query: Scope, eligible: Eligibility): Promise<DueChange | undefined> {
  const candidates = await firstOfQueues(query, eligible, queuesOf(eligible));
  return selectNext(candidates, eligible);
}

function selectNext(candidates: readonly Candidate[], eligible: Eligibility): DueChange | undefined {
  const live = candidates.filter(({ send_queue }) => send_queue !== 'backfill');
  const isStatusDue = live.some(({ send_queue, due }) => send_queue === 'status' && due <= eligible.now);
  const [next] = (live.length > 0 ? live : candidates).toSorted((a, b) => compare(a, b, { ...eligible, isStatusDue }));
  return next && { entity: next.entity, at: eligible.now, due: next.due, lane: next.lane };
}

type Candidate = Pick<OutboxRow, 'entity' | 'lane' | 'due' | 'not_before'> & { readonly send_queue: Queue };

function compare(
  a: Candidate,
  b: Candidate,
  { now, retriesLast, isStatusDue }: Eligibility & { readonly isStatusDue: boolean },
): number {
  const weight = ({ send_queue }: Candidate) => (send_queue.startsWith('finished') ? FINISHED_WEIGHT : 1);
  const age = (change: Candidate) => (now - change.due) * weight(change);
  return (
    (retriesLast ? a.not_before - b.not_before : 0) ||
    (isStatusDue ? rankOf(a) - rankOf(b) : 0) ||
    age(b) - age(a) ||
    (a.entity < b.entity ? -1 : 1)
  );
}

/** Returns the priority of a queue while a status change is due. Reads share that of links, because links may wait for them. */
function rankOf({ send_queue }: Candidate): number {
  if (send_queue === 'status') return 1;
  return send_queue.endsWith('mirror') ? 2 : 0;
}

/** Parameters of the statements that select changes. */
interface SelectParameters {
  readonly now: number;
  /** Changes that are due by then may be sent now. */
  readonly until: number;
}

function parametersOf({ now, leadTime = 0 }: Eligibility): SelectParameters {
  return { now, until: now + leadTime };
}

function firstOfQueues(query: Scope, eligible: Eligibility, queues: readonly Queue[]): Promise<readonly Candidate[]> {
  const { retriesLast = false } = eligible;
  const statement = compiledFor(`first ${retriesLast}`, eligible, queues, (scope, { now, until }) => {
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
  return statement(query, parametersOf(eligible));
}

const statements = new Map<string, ReturnType<typeof compileInScope<SelectParameters, Candidate>>>();

/** Returns the compiled statement of this name for these queues. The number of different ones is small. */
function compiledFor(
  name: string,
  { onlyWrites = false, withoutRecords = false }: Eligibility,
  queues: readonly Queue[],
  build: (scope: Scope, parameters: SelectParameters) => Compilable<Candidate>,
) {
  const key = [name, onlyWrites, withoutRecords, ...queues].join(' ');
  const statement = statements.get(key) ?? compileInScope(build);
  statements.set(key, statement);
  return statement;
}

/** Returns when the next change may be sent, and its lane; undefined if none is pending. */
export async function nextDue(query: Scope, eligible: Eligibility): Promise<DueChange | undefined> {
  if ((await anyPending(query, {})).length === 0) return undefined;
  return (await nextChange(query, eligible)) ?? earliest(query, eligible, queuesOf(eligible));
}

/** Answers the usual case, that a workspace has nothing to send, by one index lookup. */
const anyPending = compileInScope((query) =>
  query.selectFrom('outbox').select('entity').where('state', '=', 'pending').limit(1),
);

/** Returns when the next change that is not of a backfill may be sent. */
export async function nextLive(query: Scope, eligible: Eligibility): Promise<DueChange | undefined> {
  const live = queuesOf(eligible).filter((queue) => queue !== 'backfill');
  return selectNext(await firstOfQueues(query, eligible, live), eligible) ?? earliest(query, eligible, live);
}

/**
 * Returns the next change if none is ready: the first that becomes due, or the first whose pause ends. One whose pause ends first may be
 * due later than others that are paused for longer, so its time is the end of its pause, when the next ones are looked at.
 */
async function earliest(query: Scope, eligible: Eligibility, queues: readonly Queue[]): Promise<DueChange | undefined> {
  const { leadTime = 0 } = eligible;
  const statement = compiledFor('earliest', eligible, queues, (scope, { now, until }) => {
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
  const rows = await statement(query, parametersOf(eligible));
  const times = rows.map(({ entity, due, lane, not_before }) => {
    return { entity, due, lane, at: not_before > eligible.now ? not_before : due - leadTime };
  });
  return times.toSorted((a, b) => a.at - b.at)[0];
}

/** Returns the due times of the first `count` live changes, ascending. */
export async function firstDueTimes(query: Scope, count: number): Promise<number[]> {
  const rows = await firstLive(query, { count });
  return rows
    .map(({ due }) => due)
    .toSorted((a, b) => a - b)
    .slice(0, count);
}

const firstLive = compileInScope((query, { count }: { readonly count: number }) => {
  const first = (queue: Queue) => waitingIn(query, queue).orderBy('due').orderBy('entity').limit(count);
  return unionOf(LIVE.map((queue) => query.selectOver(first(queue).as(queue)).selectAll()));
});

/** Upper limit of all pauses of changes, milliseconds. `task-creations.ts` has the longest. */
const LONGEST_PAUSE = 1_000_000;

/**
 * Replaces times in the future by now, and removes pauses that are longer than any. They come from a clock that has since been
 * set back. Held changes and those in flight are included, because they may be sent again.
 *
 * @returns the number of changed rows
 */
export async function clampChangeTimes(query: Scope, now: number): Promise<number> {
  const changes = query.updateTable('outbox').where('state', 'in', CHANGE_STATES).where('send_queue', 'in', QUEUES);
  // The index has only due times. No change is due before its difference appeared.
  const postdated = changes.set({ since: now, due: now }).where('due', '>', now).where('since', '>', now);
  const paused = changes.set({ not_before: 0 }).where('not_before', '>', now + LONGEST_PAUSE);
  const sent = query.updateTable('outbox').where('state', 'in', ['sending', 'unknown']);
  const inFlight = sent.set({ next_since: now }).where('next_since', '>', now);
  return (await changedRows(postdated)) + (await changedRows(paused)) + (await changedRows(inFlight));
}

const COLUMNS = ['entity', 'send_queue', 'lane', 'due', 'not_before'] as const;

function waitingIn(
  query: Scope,
  queue: Queue,
  { onlyWrites = false, withoutRecords = false }: Pick<Eligibility, 'onlyWrites' | 'withoutRecords'> = {},
) {
  return query
    .selectFrom('outbox')
    .select(COLUMNS)
    .where('state', '=', 'pending')
    .where('send_queue', '=', sql.lit(queue))
    .$if(onlyWrites, (rows) => rows.where('kind', '!=', 'read'))
    .$if(withoutRecords, (rows) => rows.where('kind', '!=', 'pull_request'));
}

function queuesOf({ onlyReads, onlyWrites = false }: Eligibility): readonly Queue[] {
  if (onlyReads) return ['read'];
  return onlyWrites ? QUEUES.filter((queue) => queue !== 'read') : QUEUES;
}

function unionOf<Part extends { unionAll(other: Part): Part }>([first, ...others]: readonly Part[]): Part {
  if (first === undefined) throw new Error('a union needs at least one part');
  return others.reduce((all, other) => all.unionAll(other), first);
}
