import type { ChangeState, Lane, RequestOutcome } from '../../model/change.ts';
import type { ItemKey } from '../../model/item.ts';
import { entitiesOf } from '../../store/changes/entities.ts';
import { findChanges, type OutboxRow, readWaiting } from '../../store/changes/outbox-rows.ts';
import { type RequestRow, requestsOfItems } from '../../store/changes/requests.ts';
import { deliveriesByIds, type ListedDelivery } from '../../store/deliveries/find-deliveries.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { type NamedEntity, nameEntities } from '../items/human-names.ts';

/**
 * The steps of one request, or of a change that waits for one: the delivery, the decision, the wait for its due time, the wait
 * for a slot, and the answer. Pages draw it as a waterfall.
 */
export interface Timeline {
  /** `record of acme/app#1`, `link of acme/app#1 to BUG-12` */
  readonly about: NamedEntity;
  /** Number of the request in the history; null if it is not sent yet, or in flight. */
  readonly request: number | null;
  readonly action: string | null;
  readonly lane: Lane;
  /** `answered` … as in the history; else the state of the change: pending, sending, unknown, held. */
  readonly state: RequestOutcome | ChangeState;
  readonly status: number | null;
  readonly error: string | null;
  readonly attempt: number;
  readonly times: TimelineTimes;
  /** The parts of these times, one after the other. */
  readonly phases: readonly Phase[];
  /** The deliveries that caused it, the oldest first; none if only a backfill or a sweep did. */
  readonly deliveries: readonly ListedDelivery[];
  /** Number of those deliveries: more than are listed if some were purged. */
  readonly served: number;
}

/** Epoch milliseconds, in this order. Null: not reached, or not known. */
export interface TimelineTimes {
  /** The first of its deliveries was stored. */
  readonly received: number | null;
  /** Reconcile had processed that delivery. */
  readonly decided: number | null;
  readonly due: number | null;
  /** It requested a slot of the quota, and got it. */
  readonly asked: number | null;
  readonly slot: number | null;
  readonly sent: number | null;
  readonly answered: number | null;
}

export interface Phase {
  /** decision: the wait for reconcile; due: the debounce; slot: the wait for the quota; request: the wait for the answer. */
  readonly name: 'decision' | 'due' | 'slot' | 'request';
  readonly from: number;
  /** Null: not ended yet. */
  readonly to: number | null;
}

/** Deliveries shown for one request, and requests of one query. */
const MOST_SHOWN = 20;
const MOST_TIMELINES = 100;
const MOST_SEARCHED = 500;

/** The part of one delivery: the requests that were sent because of it, or the request that it answers. */
interface Part {
  readonly delivery: number;
  readonly answer?: string;
}

/** Returns the pending changes of these items, then their latest requests. */
export async function timelinesOf(
  query: Scope,
  items: readonly ItemKey[],
  now: number,
  part?: Part,
): Promise<Timeline[]> {
  const isWanted = (ids: readonly number[]) => part === undefined || ids.includes(part.delivery);
  const requests = (await requestsOfItems(query, items, part === undefined ? MOST_TIMELINES : MOST_SEARCHED))
    .map((row) => ({ row, ids: JSON.parse(row.deliveries) as number[] }))
    .filter(({ row, ids }) => isWanted(ids) || (part?.answer !== undefined && row.answer === part.answer))
    .slice(0, MOST_TIMELINES);
  const entities = (await entitiesOf(query, items)).slice(0, MOST_SEARCHED);
  const owners = new Map(entities.map((row) => [row.entity, row]));
  const changes = (await findChanges(query, [...owners.keys()]))
    .map((row) => ({ row, ids: readWaiting(row).map(({ id }) => id) }))
    .filter(({ ids }) => isWanted(ids))
    .slice(0, MOST_TIMELINES);
  const names = await nameEntities(query, [...entities, ...requests.map(({ row }) => row)]);
  const shown = [...changes, ...requests].flatMap(({ ids }) => ids.slice(0, MOST_SHOWN));
  const deliveries = new Map((await deliveriesByIds(query, [...new Set(shown)])).map((each) => [each.id, each]));
  const deliveriesOf = (ids: readonly number[]) => ids.slice(0, MOST_SHOWN).flatMap((id) => deliveries.get(id) ?? []);
  const about = (entity: string) => names.get(entity) as NamedEntity;
  return [
    ...changes.map(({ row, ids }) =>
      timelineOfChange(row, about(row.entity), deliveriesOf(ids), { served: ids.length, now }),
    ),
    ...requests.map(({ row, ids }) =>
      timelineOfRequest(row, about(row.entity), deliveriesOf(ids), { served: ids.length, now }),
    ),
  ];
}

function timelineOfRequest(
  row: RequestRow,
  about: NamedEntity,
  deliveries: readonly ListedDelivery[],
  { served, now }: { readonly served: number; readonly now: number },
): Timeline {
  const { id, action, lane, outcome, status, error, attempt } = row;
  const { due, asked_at: asked, slot_at: slot, sent_at: sent, completed_at: answered } = row;
  const times = { ...arrival(deliveries, row.since), due, asked, slot, sent, answered };
  const phases = phasesOf(times, now);
  return {
    about,
    request: id,
    action,
    lane,
    state: outcome,
    status,
    error,
    attempt,
    times,
    phases,
    deliveries,
    served,
  };
}

function timelineOfChange(
  row: OutboxRow,
  about: NamedEntity,
  deliveries: readonly ListedDelivery[],
  { served, now }: { readonly served: number; readonly now: number },
): Timeline {
  const { lane, state, error, attempts, since, sent_at: sent } = row;
  const due = sent === null ? Math.max(row.due, row.not_before) : row.due;
  const times = { ...arrival(deliveries, since), due, asked: null, slot: null, sent, answered: null };
  const none = { request: null, action: null, status: null };
  const phases = phasesOf(times, now);
  return { ...none, about, lane, state, error, attempt: attempts + 1, times, phases, deliveries, served };
}

/** Only the first due change requests a slot, so the others wait for a slot from their due time on. */
function phasesOf({ received, decided, due, asked, slot, sent, answered }: TimelineTimes, now: number): Phase[] {
  const phases: Phase[] = [];
  const start = decided ?? received;
  const got = slot ?? sent;
  if (received !== null && decided !== null) phases.push({ name: 'decision', from: received, to: decided });
  if (start !== null && due !== null) {
    const ready = Math.max(start, Math.min(due, asked ?? due, got ?? due));
    const isReady = got !== null || ready <= now;
    phases.push({ name: 'due', from: start, to: isReady ? ready : null });
    if (isReady) phases.push({ name: 'slot', from: ready, to: got });
  }
  if (sent !== null) phases.push({ name: 'request', from: sent, to: answered });
  return phases;
}

function arrival(
  [first]: readonly ListedDelivery[],
  since: number | null,
): Pick<TimelineTimes, 'received' | 'decided'> {
  return { received: first?.receivedAt ?? since, decided: first?.settledAt ?? null };
}
