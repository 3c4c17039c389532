import type { ConnectionStatus, Status, WindowStatus, WorkspaceStatus } from './status.ts';
import { IDLE } from './status.ts';

/**
 * Completes the status of a process that may run another version: a field that is absent, or is no list or object where this version
 * reads one, gets an empty value. Fields that this version does not know stay as they are.
 */
export function completeStatus(answer: Partial<Status>): Status {
  return complete(answer, BLANK) as Status;
}

const WINDOW: WindowStatus = { window: 0, cap: null, used: 0, usedByBackground: 0, backgroundLimit: null };
const REASON = { code: '', message: '', hint: '' };
const CAUSE = {
  ...{ ...REASON, verdict: 'degraded' as const, count: 1, stops: '', command: null },
  ...{ since: null, seenAt: null },
};

const CONNECTION: ConnectionStatus = {
  ...{ name: '', connector: '', mirror: 'auto', webhookPath: null, schedule: null, hooks: null },
  ...IDLE,
  names: [{ name: '', id: '', called: '', elsewhere: null }],
};

const DELIVERY = {
  ...{ id: 0, connection: '', source: 'webhook' as const, event: '', receivedAt: 0 },
  ...{ state: 'pending' as const, reason: null },
};
const CHANGE = {
  ...{ entity: '', label: '', kind: 'link' as const, lane: 'link' as const, state: 'pending' as const },
  ...{ since: 0, notBefore: 0, attempts: 0, failure: null },
};

const WORKSPACE: WorkspaceStatus = {
  ...{ name: '', address: '', verdict: 'ok', summary: '', causes: [CAUSE], state: { kind: 'running' } },
  ...{ items: 0, tasks: 0, unfinishedTasks: {} },
  quota: {
    ...{ long: WINDOW, burst: WINDOW, configuredShare: 'auto', effectiveShare: 0, ceiling: 0 },
    ...{ limited: false, paused: null, inFlight: 0, nextSlotAt: null },
  },
  backlog: { requests: 0, backfill: 0, doneAt: null, held: 0, lastSentAt: null },
  mirror: { place: 'unknown', message: 'unknown' },
  connections: [CONNECTION],
  deliveries: {
    ...{ lastReceivedAt: null, lastDay: 0, pending: 0, quarantined: 0, quarantinedSeen: null },
    ...{ quarantine: [DELIVERY], latest: [DELIVERY] },
  },
  changes: {
    byState: { pending: 0, sending: 0, unknown: 0, held: 0 },
    ...{ waitingBackfills: 0, waitingBursts: 0, heldSeen: null, oldest: {}, lastDueAt: null },
    ...{ stuck: [CHANGE], next: [CHANGE] },
  },
  backfills: [
    {
      ...{ connection: '', since: null, listed: false, units: 0, unitsDone: 0, pages: 0, items: 0, total: null },
      ...{ startedAt: 0, finishedAt: null, isPaused: false },
      failures: [{ unit: null, error: '', givenUp: false }],
    },
  ],
  pullRequests: { total: 0, waiting: 0 },
  links: { total: 0, waiting: 0 },
  server: {
    records: { state: 'open', error: null },
    ...{ routesOff: [], fieldsOff: [], updatesOff: null, areStatusesContested: false },
  },
  sweep: { running: null, last: null, turn: null },
  gone: [{ key: '', name: '', connection: '', at: 0 }],
};

/** The one element of each list stands for all of its elements. */
const BLANK: Status = {
  ...{ version: 'unknown', schema: null, protocol: null, startedAt: 0, at: 0, ready: true, components: {} },
  ...{ configFault: null, databaseBytes: 0, verdict: 'ok', workspaces: [WORKSPACE] },
  broken: [{ name: '', ...REASON }],
};

function complete(value: unknown, blank: unknown): unknown {
  if (Array.isArray(blank)) return completeList(value, blank);
  if (!isObject(blank)) return value === undefined ? blank : value;
  // A list stays empty unless the answer has elements.
  const given = isObject(value) ? value : {};
  const known = Object.entries(blank).map(([key, each]) => [key, complete(given[key], each)]);
  return { ...given, ...Object.fromEntries(known) };
}

function completeList(value: unknown, [element]: readonly unknown[]): unknown[] {
  if (!Array.isArray(value)) return [];
  return element === undefined ? value : value.map((each) => complete(each, element));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
