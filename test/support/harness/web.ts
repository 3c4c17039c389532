import { type CauseTimes, withVerdict } from '../../../src/admin/status/describe-open-workspace.ts';
import {
  type ConnectionStatus,
  completeStatus,
  type Status,
  verdictOf,
  type WorkspaceStatus,
} from '../../../src/admin/status/status.ts';
import type { HiddenFacts, UnjudgedStatus } from '../../../src/admin/status/verdict.ts';
import { PROTOCOL, SCHEMA } from '../../../src/model/build.ts';

export const NOW = Date.UTC(2026, 10, 20, 12, 0, 0);
const MINUTE = 60_000;

export const EMPTY = completeStatus({ workspaces: [{}] as never }).workspaces[0] as WorkspaceStatus;

export const QUOTA: WorkspaceStatus['quota'] = {
  ...EMPTY.quota,
  long: { ...EMPTY.quota.long, window: 15 * MINUTE, cap: 200, backgroundLimit: 160 },
  burst: { ...EMPTY.quota.burst, window: MINUTE, cap: 40, backgroundLimit: 32 },
  ...{ configuredShare: 0.8, effectiveShare: 0.8, ceiling: 0.8, nextSlotAt: NOW },
};

export const CONNECTION: ConnectionStatus = {
  ...(completeStatus({ workspaces: [{ connections: [{}] }] as never }).workspaces[0]
    ?.connections[0] as ConnectionStatus),
  ...{ name: 'github', connector: 'github' },
  ...{ webhookPath: '/webhooks/acme/github', schedule: 'every 5 minutes' },
};

interface Given extends Partial<UnjudgedStatus>, Partial<HiddenFacts> {
  readonly times?: CauseTimes;
  readonly now?: number;
}

/** A status with one workspace; the given facts say what is not idle. */
export function statusWith(
  { times, now = NOW, halt = null, rejected = null, keptLog = null, ...facts }: Given = {},
  more: Partial<Status> = {},
): Status {
  const { verdict: _verdict, summary: _summary, causes: _causes, state: _state, mirror: _mirror, ...empty } = EMPTY;
  const workspace = {
    ...empty,
    ...{ name: 'acme', address: 'http://127.0.0.1:4000/api/v1', connections: [CONNECTION], quota: QUOTA },
    ...facts,
  };
  const status = {
    ...{ version: '0.1.0', schema: SCHEMA, protocol: PROTOCOL },
    startedAt: NOW - 90 * MINUTE,
    at: NOW,
    ready: true,
    components: { store: 'ok', workspace: 'ok' },
    configFault: null,
    databaseBytes: 81_920,
    workspaces: [withVerdict(workspace, { halt, rejected, keptLog }, now, times)],
    broken: [],
    ...more,
  };
  return { ...status, verdict: verdictOf(status) };
}
