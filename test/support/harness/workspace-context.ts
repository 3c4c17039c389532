import type { WorkspaceConfig } from '../../../src/platform/config/schema.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import { createWakeSignals } from '../../../src/store/store-context.ts';
import { createPauses } from '../../../src/sync/intake/pauses.ts';
import { createBreaker } from '../../../src/sync/outbox/breaker.ts';
import { PLAIN_RULES } from '../../../src/sync/reconcile/context.ts';
import type { WorkspaceContext } from '../../../src/sync/workspace-context.ts';

const BASE_URL = 'https://workspace.test/api/v1';

/** The part of a configuration that stages read. Absent: nothing is configured, and nothing limits a change. */
export interface TestSettings {
  readonly workspace?: Partial<WorkspaceConfig['workspace']>;
  readonly quota?: Partial<WorkspaceConfig['quota']>;
  readonly guard?: WorkspaceConfig['guard'] | undefined;
  readonly recordsPullRequests?: boolean;
}

function configWith(settings: TestSettings = {}): WorkspaceConfig {
  const connection = { name: 'main', mirror: 'auto', writeBack: { comment: false, close: false, status: false } };
  return {
    name: 'test',
    workspace: { id: 'current', url: BASE_URL, statuses: {}, sweep: 'off', web: [], ...settings.workspace },
    quota: { ...settings.quota },
    guard: settings.guard,
    connections: settings.recordsPullRequests ? [connection] : [],
  } as unknown as WorkspaceConfig;
}

/** Returns a context that logs and counts nothing, without connections. Its quota is unused, and its client throws. */
export function workspaceContext(
  parts: Pick<WorkspaceContext, 'store' | 'clock'> & Partial<WorkspaceContext>,
  settings: TestSettings = {},
): WorkspaceContext {
  const unused = { usedShare: () => 0, paces: () => [], isHalted: () => false, isPaused: () => false };
  return {
    ...{ random: systemRandom(), logger: silentLogger, meter: silentMeter, ...createWakeSignals() },
    ...{ config: configWith(settings), baseUrl: BASE_URL, version: '1.0.0' },
    throttle: unused as unknown as WorkspaceContext['throttle'],
    breaker: createBreaker(),
    outboxClient: {} as WorkspaceContext['outboxClient'],
    collector: { isCrowded: () => false } as WorkspaceContext['collector'],
    ...{ connections: [], pauses: createPauses(parts.clock), sources: new Map(), rules: PLAIN_RULES },
    workspaceId: async () => undefined,
    onTrouble: () => undefined,
    onWrite: () => undefined,
    onLag: () => undefined,
    ...parts,
  };
}
