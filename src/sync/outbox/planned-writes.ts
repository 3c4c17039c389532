import { createHash } from 'node:crypto';
import type { Action, EntityKind } from '../../model/change.ts';
import { yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import { writesAfter } from '../../store/changes/outbox-rows.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { type PreparedRequest, writeFor } from './request.ts';

/** A write as it would be sent now. */
export interface PlannedWrite {
  readonly entity: string;
  readonly kind: EntityKind;
  readonly action: Action;
  readonly body: Readonly<Record<string, unknown>>;
  /** The mass-change guard holds it. */
  readonly held: boolean;
  /** When it is due, epoch milliseconds. */
  readonly due: number;
}

/** Writes that are computed before the event loop runs again. */
const BATCH = 500;

/**
 * Returns all writes that are pending, held by the guard or in flight, ordered by entity.
 * Leaves out changes for which nothing would be sent now: those that the workspace refused, and creations whose outcome
 * a list must settle. Yields to the event loop, however many there are.
 */
export async function readPlan(query: Scope): Promise<PlannedWrite[]> {
  const plan: PlannedWrite[] = [];
  for (let last: string | undefined = ''; last !== undefined; ) {
    const rows = await writesAfter(query, last, BATCH);
    plan.push(...rows.flatMap(plannedWrites));
    last = rows.at(BATCH - 1)?.entity;
    await yieldToEventLoop();
  }
  return plan;
}

/** Returns the writes that are due first, at most `limit`. */
export function firstDue(plan: readonly PlannedWrite[], limit: number): PlannedWrite[] {
  return plan.toSorted((left, right) => left.due - right.due).slice(0, limit);
}

type PlannedRow = Awaited<ReturnType<typeof writesAfter>>[number];

function plannedWrites({ state, guard, sent, due, ...row }: PlannedRow): PlannedWrite[] {
  const isHeld = state === 'held';
  if (isHeld && guard !== 'held') return [];
  const { entity, kind } = row;
  const request = state === 'sending' ? (JSON.parse(sent as string) as PreparedRequest) : writeFor({ kind, sent }, row);
  return request ? [{ entity, kind, action: request.action, body: request.body, held: isHeld, due }] : [];
}

/** The digest of a plan. It depends on the writes, but not on their order. */
export interface PlanDigest {
  readonly id: string;
  /** A hash of entity, action and body, by entity. */
  readonly writes: Readonly<Record<string, string>>;
}

const ID_LENGTH = 12;

export async function digestOf(plan: readonly PlannedWrite[]): Promise<PlanDigest> {
  const sorted = plan.toSorted((left, right) => (left.entity < right.entity ? -1 : 1));
  const writes: Record<string, string> = {};
  const id = createHash('sha256');
  for (const [index, { entity, action, body }] of sorted.entries()) {
    const digest = hash([entity, action, body]);
    writes[entity] = digest;
    id.update(JSON.stringify([entity, digest]));
    if (index % BATCH === BATCH - 1) await yieldToEventLoop();
  }
  return { id: id.digest('hex').slice(0, ID_LENGTH), writes };
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}

/** The entities whose writes changed since a plan was shown. */
export interface PlanDifference {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  /** Sent meanwhile, or no longer needed. */
  readonly gone: readonly string[];
}

export function differenceOf(shown: PlanDigest, current: PlanDigest): PlanDifference {
  const entities = Object.keys(current.writes);
  return {
    added: entities.filter((entity) => !Object.hasOwn(shown.writes, entity)),
    changed: entities.filter((entity) => (shown.writes[entity] ?? current.writes[entity]) !== current.writes[entity]),
    gone: Object.keys(shown.writes).filter((entity) => !Object.hasOwn(current.writes, entity)),
  };
}
