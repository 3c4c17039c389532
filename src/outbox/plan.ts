import { createHash } from 'node:crypto';
import type { EntityKind } from '../model/change.ts';
import type { Action } from '../store/answers.ts';
import type { Query } from '../store/database.ts';
import { type Prepared, writeOf } from './prepare.ts';

/** One write as it would be sent now. */
export interface PlannedWrite {
  readonly entity: string;
  readonly kind: EntityKind;
  readonly action: Action;
  readonly body: Readonly<Record<string, unknown>>;
  /** The mass-change guard holds it. */
  readonly held: boolean;
}

/**
 * All writes that wait or are on the wire, those due first before the others. What the workspace refused, and creates
 * whose fate a list must settle, are not among them: as things stand nothing would be sent for them.
 */
export async function readPlan(query: Query): Promise<PlannedWrite[]> {
  const rows = await query
    .selectFrom('outbox')
    .innerJoin('entities', 'entities.entity', 'outbox.entity')
    .selectAll('entities')
    .select(['outbox.state', 'outbox.guard', 'outbox.sent'])
    .where('outbox.kind', '!=', 'read')
    .where('outbox.state', '!=', 'unknown')
    .orderBy('outbox.due')
    .orderBy('outbox.entity')
    .execute();
  return rows.flatMap(({ state, guard, sent, ...held }) => {
    const isHeld = state === 'held';
    if (isHeld && guard !== 'held') return [];
    const { entity, kind } = held;
    const request = state === 'sending' ? (JSON.parse(sent as string) as Prepared) : writeOf({ kind, sent }, held);
    return request ? [{ entity, kind, action: request.action, body: request.body, held: isHeld }] : [];
  });
}

/** A plan by what it would write, independent of its order. */
export interface PlanDigest {
  readonly id: string;
  /** By entity: a hash of the action and the body. */
  readonly writes: Readonly<Record<string, string>>;
}

const ID_LENGTH = 12;

export function digestOf(plan: readonly PlannedWrite[]): PlanDigest {
  const writes = plan
    .map(({ entity, action, body }) => [entity, hash([entity, action, body])] as const)
    .toSorted(([left], [right]) => (left < right ? -1 : 1));
  return { id: hash(writes).slice(0, ID_LENGTH), writes: Object.fromEntries(writes) };
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
