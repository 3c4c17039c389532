import { createHash } from 'node:crypto';
import type { Action, EntityKind } from '../../model/change.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import { writesAfter } from '../../store/outbox-rows.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { type Prepared, writeOf } from './prepare.ts';

/** One write as it would be sent now. */
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

/** So many writes are worked out in one turn of the event loop. */
const AT_ONCE = 500;

/**
 * All writes that wait or are in flight, by entity. What the workspace refused, and creates whose outcome a list must
 * settle, are not among them: as things stand nothing would be sent for them. However many there are, the event loop
 * turns meanwhile.
 */
export async function readPlan(query: Scope): Promise<PlannedWrite[]> {
  const plan: PlannedWrite[] = [];
  for (let last: string | undefined = ''; last !== undefined; ) {
    const rows = await writesAfter(query, last, AT_ONCE);
    plan.push(...rows.flatMap(planned));
    last = rows.at(AT_ONCE - 1)?.entity;
    await yieldToEventLoop();
  }
  return plan;
}

/** The ones that are due first. */
export function firstDue(plan: readonly PlannedWrite[], limit: number): PlannedWrite[] {
  return plan.toSorted((left, right) => left.due - right.due).slice(0, limit);
}

type PlannedRow = Awaited<ReturnType<typeof writesAfter>>[number];

function planned({ state, guard, sent, due, ...held }: PlannedRow): PlannedWrite[] {
  const isHeld = state === 'held';
  if (isHeld && guard !== 'held') return [];
  const { entity, kind } = held;
  const request = state === 'sending' ? (JSON.parse(sent as string) as Prepared) : writeOf({ kind, sent }, held);
  return request ? [{ entity, kind, action: request.action, body: request.body, held: isHeld, due }] : [];
}

/** A plan by what it would write, independent of its order. */
export interface PlanDigest {
  readonly id: string;
  /** By entity: a hash of the action and the body. */
  readonly writes: Readonly<Record<string, string>>;
}

const ID_LENGTH = 12;

export async function digestOf(plan: readonly PlannedWrite[]): Promise<PlanDigest> {
  const sorted = plan.toSorted((left, right) => (left.entity < right.entity ? -1 : 1));
  const writes: Record<string, string> = {};
  const id = createHash('sha256');
  for (const [index, { entity, action, body }] of sorted.entries()) {
    const own = hash([entity, action, body]);
    writes[entity] = own;
    id.update(JSON.stringify([entity, own]));
    if (index % AT_ONCE === AT_ONCE - 1) await yieldToEventLoop();
  }
  return { id: id.digest('hex').slice(0, ID_LENGTH), writes };
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}

/** What has changed since a plan was shown, as entities. */
export interface PlanDifference {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  /** Sent meanwhile, or no longer needed. */
  readonly gone: readonly string[];
}

export function differenceOf(shown: PlanDigest, present: PlanDigest): PlanDifference {
  const before = Object.keys(shown.writes);
  const now = Object.keys(present.writes);
  return {
    added: now.filter((entity) => !Object.hasOwn(shown.writes, entity)),
    changed: now.filter((entity) => (shown.writes[entity] ?? present.writes[entity]) !== present.writes[entity]),
    gone: before.filter((entity) => !Object.hasOwn(present.writes, entity)),
  };
}
