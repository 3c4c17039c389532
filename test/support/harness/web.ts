import {
  describeWorkspace,
  type QuotaStatus,
  type Status,
  verdictOf,
  type WorkspaceParts,
} from '../../../src/admin/status.ts';
import { PROTOCOL, SCHEMA } from '../../../src/model/build.ts';
import type { StoredStatus } from '../../../src/store/stored-status.ts';

export const NOW = Date.UTC(2026, 10, 20, 12, 0, 0);
const MINUTE = 60_000;

export const EMPTY: StoredStatus = {
  deliveries: {
    lastReceivedAt: null,
    lastDay: 0,
    pending: 0,
    quarantined: 0,
    quarantinedSeen: null,
    quarantine: [],
    latest: [],
  },
  changes: {
    byState: { pending: 0, sending: 0, unknown: 0, held: 0 },
    waitingBackfills: 0,
    waitingBursts: 0,
    heldSeen: null,
    oldest: {},
    lastDueAt: null,
    stuck: [],
    next: [],
  },
  connections: [],
  items: 0,
  backfills: [],
  gone: [],
  sweep: { running: null, last: null, turn: null },
  server: {
    records: { state: 'open', error: null },
    routesOff: [],
    fieldsOff: [],
    updatesOff: null,
    areStatusesContested: false,
  },
  tasks: 0,
  unfinishedTasks: {},
  pullRequests: { total: 0, waiting: 0 },
  links: { total: 0, waiting: 0 },
};

export const QUOTA: QuotaStatus = {
  long: { window: 15 * MINUTE, cap: 200, used: 0, usedByBackground: 0, backgroundLimit: 160 },
  burst: { window: MINUTE, cap: 40, used: 0, usedByBackground: 0, backgroundLimit: 32 },
  configuredShare: 0.8,
  effectiveShare: 0.8,
  ceiling: 0.8,
  limited: false,
  paused: null,
  inFlight: 0,
  nextSlotAt: NOW,
};

/** Nothing waits. */
const IDLE: WorkspaceParts['backlog'] = { requests: 0, backfill: 0, doneAt: null, lastSentAt: null, held: 0 };

/** A status with one workspace; `parts` says what is not idle. */
export function statusWith(parts: Partial<WorkspaceParts> = {}, more: Partial<Status> = {}): Status {
  const status = {
    ...{ version: '0.1.0', schema: SCHEMA, protocol: PROTOCOL },
    startedAt: NOW - 90 * MINUTE,
    at: NOW,
    ready: true,
    components: { store: 'ok', workspace: 'ok' },
    configFault: null,
    databaseBytes: 81_920,
    workspaces: [
      describeWorkspace({
        name: 'acme',
        address: 'http://127.0.0.1:4000/api/v1',
        connections: [
          {
            name: 'github',
            connector: 'github',
            mirror: 'auto',
            webhookPath: '/webhooks/acme/github',
            schedule: 'every 5 minutes',
            hooks: null,
            names: [],
          },
        ],
        stored: EMPTY,
        quota: QUOTA,
        backlog: IDLE,
        now: NOW,
        ...parts,
      }),
    ],
    broken: [],
    ...more,
  };
  return { ...status, verdict: verdictOf(status) };
}
