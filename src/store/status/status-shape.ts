import type { ChangeState, EntityKind, Lane } from '../../model/change.ts';
import type { DeliveryOrigin, DeliveryState } from '../../model/delivery.ts';
import type { StoredFailure } from '../../model/errors.ts';
import type { RefusedWebhook } from '../access/refused-requests.ts';
import type { BackfillStatus } from '../connections/backfills.ts';
import type { UnfinishedTasks } from '../tasks/stored-tasks.ts';
import type { OptionalRoute, RecordsRoute } from '../workspace/server-capabilities.ts';
import type { SweepPosition, SweepReports } from '../workspace/workspace-sweeps.ts';

/**
 * The type of an example. Each part of the status is declared once, as an example with empty values. Its type follows from it, and so
 * do the values of a workspace without rows and of the fields that a process of another version does not report. The one element of a
 * list stands for all of its elements.
 */
export type TypeOf<Example> = Example extends readonly (infer Each)[]
  ? readonly TypeOf<Each>[]
  : Example extends object
    ? { readonly [Key in keyof Example]: TypeOf<Example[Key]> }
    : Example;

/**
 * Completes a value: a field that is absent, or is no list or object where the example has one, gets the empty value of the example.
 * Fields that the example lacks stay as they are.
 */
export function complete<Example extends object>(value: unknown, example: Example): TypeOf<Example> {
  return completed(value, example) as TypeOf<Example>;
}

function completed(value: unknown, example: unknown): unknown {
  if (Array.isArray(example)) return Array.isArray(value) ? value.map((each) => completed(each, example[0])) : [];
  if (!isObject(example)) return value === undefined ? example : value;
  const given = isObject(value) ? value : {};
  const known = Object.entries(example).map(([key, each]) => [key, completed(given[key], each)]);
  return { ...given, ...Object.fromEntries(known) };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * How much is read. `verdict`: only what the verdict depends on, at a fraction of the cost: no delivery, no change, and nothing of
 * connections without problems. All else is empty or too low.
 */
export type StatusDepth = 'whole' | 'verdict';

/** The times of the first and the last of some rows. */
export interface TimeRange {
  readonly since: number;
  readonly seenAt: number;
}

const DELIVERY = {
  id: 0,
  connection: '',
  source: 'webhook' as DeliveryOrigin,
  event: '',
  receivedAt: 0,
  state: 'pending' as DeliveryState,
  reason: null as string | null,
};

const DELIVERIES = {
  lastReceivedAt: null as number | null,
  /** Received from vendors in the last 24 hours, as the page of deliveries lists them: without what the workspace sent. */
  lastDay: 0,
  pending: 0,
  quarantined: 0,
  /** When the first and the last quarantined delivery were received; null without any. */
  quarantinedSeen: null as TimeRange | null,
  quarantine: [DELIVERY],
  latest: [DELIVERY],
};

const CHANGE = {
  entity: '',
  /** The name of the entity for people: `record of acme/app#1`. */
  label: '',
  kind: 'link' as EntityKind,
  lane: 'link' as Lane,
  state: 'pending' as ChangeState,
  /** When the difference appeared. */
  since: 0,
  /** Not sent earlier. */
  notBefore: 0,
  attempts: 0,
  failure: null as StoredFailure | null,
};

const CHANGES = {
  byState: { pending: 0, sending: 0, unknown: 0, held: 0 } satisfies Record<ChangeState, number>,
  /** Pending changes in the lane of backfills. */
  waitingBackfills: 0,
  /** The creations among them that live webhooks caused: they exceeded the limit of `BURST`. */
  waitingBursts: 0,
  /** When the differences of the oldest and of the newest held change appeared; null without any. */
  heldSeen: null as TimeRange | null,
  /** When the oldest pending difference of each lane appeared, without those of first imports; without lanes that have no other. */
  oldest: {} as Partial<Record<Lane, number>>,
  /** The time at which every pending change is due, regardless of the quota; null if none is pending. */
  lastDueAt: null as number | null,
  /** Changes that need approval, or whose outcome is unknown. */
  stuck: [CHANGE],
  /** Due first. */
  next: [CHANGE],
};

/** The stored part of a connection. */
export const ACTIVITY = {
  /** Among the last 1 000 deliveries of the workspace, polls included; null where none is. */
  lastDeliveryAt: null as number | null,
  /** The last webhook among the same deliveries; null where none is. */
  lastWebhookAt: null as number | null,
  units: 0,
  /** Units with a walk that has not reached its last page. */
  walking: 0,
  /** The last walk that was completed. */
  lastPollAt: null as number | null,
  failingUnits: 0,
  /** Features that are switched off at the vendor, in sentences for people. Not a failure: nothing is missing. */
  switchedOff: [''],
  /** The latest failure that no success has followed. */
  failure: null as (StoredFailure & { readonly unit: string | null; readonly at: number }) | null,
  /** Objects waiting to be fetched. */
  fetches: 0,
  /** Objects that the provider refuses, so that worksync no longer requests them; `code: message` of one. */
  refusedFetches: 0,
  fetchRefusal: null as string | null,
  /** Comments, closings and commit statuses that the provider refuses; `code: message` of one. */
  refusedWrites: 0,
  writeRefusal: null as string | null,
  /** Items that nothing has confirmed since a restore, so that nothing is written about them. */
  unverifiedItems: 0,
  /** The last sweep of a unit that reached its end. */
  lastSweepAt: null as number | null,
  /** The last webhook that was refused; null where none is stored. */
  lastRefused: null as RefusedWebhook | null,
  /** Units that the provider no longer has, or no longer shows to the credential: their records and links stay. */
  missingUnits: [''],
};

const BACKFILL = {
  ...{ connection: '', since: null, listed: false, units: 0, unitsDone: 0, pages: 0, items: 0, total: null },
  ...{ startedAt: 0, finishedAt: null, isPaused: false },
  failures: [{ unit: null as string | null, error: '', givenUp: false }],
} as BackfillStatus;

/** How many of one kind the workspace should have, and how many of them have an unsent change. The others are synced. */
const TALLY = { total: 0, waiting: 0 };

/** The stored state of the work on one workspace. Plain JSON; times are epoch milliseconds. */
export const STORED = {
  deliveries: DELIVERIES,
  changes: CHANGES,
  /** All connections of which anything is stored. */
  connections: [{ connection: '', ...ACTIVITY }],
  /** Running ones, and those that ended in the last 24 hours. */
  backfills: [BACKFILL],
  items: 0,
  /** The comparison with the lists of the workspace; and, if there are any, the reads of resources that no list contains. */
  sweep: { running: null, last: null, turn: null } as SweepReports & {
    readonly turn: Pick<SweepPosition, 'startedAt' | 'endedAt' | 'read'> | null;
  },
  /** Items that their provider no longer has, latest first. They write nothing; their links stay. `name`: `acme/app#1`, else the key. */
  gone: [{ key: '', name: '', connection: '', at: 0 }],
  tasks: 0,
  unfinishedTasks: {} as UnfinishedTasks,
  pullRequests: TALLY,
  links: TALLY,
  /** Functions that the server of the workspace is known to lack. */
  server: {
    /** Whether it records pull requests, and its last refusal if it does not. */
    records: { state: 'unknown' as RecordsRoute['state'], error: null as string | null },
    /** Routes that are switched off because the server refuses them. */
    routesOff: [{ route: 'getTask' as OptionalRoute, status: 0, until: 0 }],
    /** Why no task is updated; null while updates are sent. */
    updatesOff: null as string | null,
    /** Others changed so many statuses back in the last day that further status changes are held. */
    areStatusesContested: false,
    /** Fields that are left out of creations because the server refuses them. */
    fieldsOff: [''],
  },
};

export type StoredStatus = TypeOf<typeof STORED>;
export type ConnectionActivity = StoredStatus['connections'][number];
export type InboxStatus = StoredStatus['deliveries'];
export type OutboxStatus = StoredStatus['changes'];
export type ServerStatus = StoredStatus['server'];
