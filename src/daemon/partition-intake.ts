import type { Job } from '../platform/lib/scheduler.ts';
import type { Stage } from '../platform/lib/stage.ts';
import { WORKSPACE } from '../store/workspace-answers.ts';
import type { ActiveConnection } from '../sync/intake/active-connection.ts';
import { createCollector } from '../sync/intake/append.ts';
import { type Backfills, createBackfills } from '../sync/intake/backfill-stage.ts';
import { createFetches, type Fetches } from '../sync/intake/fetches.ts';
import { createHookWatch, type HookWatch } from '../sync/intake/hook-watch.ts';
import { createPauses, type Pauses } from '../sync/intake/pauses.ts';
import { createPolls, type Polls } from '../sync/intake/polls.ts';
import { sweepJobs } from '../sync/intake/sweeps.ts';
import { createVerification } from '../sync/intake/verify-items.ts';
import { type Receiver, webhookUrlOf } from '../sync/intake/webhook-routes.ts';
import type { PartitionOptions, PartitionParts } from './partition-parts.ts';
import type { Parts } from './parts.ts';
import { activeConnections, type NameBooks, openNameBooks } from './sources.ts';
import { workspaceReceiver } from './workspace-webhooks.ts';

/** The side of a partition on which things come in. */
export interface PartitionIntake {
  /** What the names in each connection's configuration lead to, by the name of the connection. */
  readonly books: NameBooks;
  readonly connections: readonly ActiveConnection[];
  readonly polls: Polls;
  readonly fetches: Fetches;
  readonly backfills: Backfills;
  /** Confirms the items of a restored database. */
  readonly verification: Stage;
  readonly hooks: HookWatch;
  /** Shared by all that ask a provider. */
  readonly pauses: Pauses;
  readonly jobs: readonly Job[];
  /** Deliveries come in faster than they can be stored one by one. */
  isCrowded(): boolean;
  receiver(connection: string): Receiver | undefined;
}

export async function openIntake(
  { config, wakeSignals, grants, converter, publicUrl, groupCommit, lease }: PartitionOptions,
  parts: Parts,
  shared: PartitionParts,
): Promise<PartitionIntake> {
  const { store, clock, random, logger, meter, tracer } = shared;
  const books = await openNameBooks(config.connections, parts, { store, logger, meter });
  const pauses = createPauses(clock);
  const given = { logger, books, grants, converter, pauses, lease };
  const connections = activeConnections(config.connections, parts, given, (connection) =>
    publicUrl === undefined ? undefined : webhookUrlOf(publicUrl, config.name, connection),
  );
  const collector = createCollector({ store, clock, wakeSignal: wakeSignals.inbox, groupCommit });
  const deps = { store, clock, random, logger, meter, tracer, connections, pauses, inbox: wakeSignals.inbox };
  const polls = createPolls(deps);
  const fetches = createFetches(deps);
  const hooks = createHookWatch(deps);
  const received = { collector, meter, logger, tracer };
  const { webhook } = config.workspace;
  const ofWorkspace = webhook && workspaceReceiver(webhook, { ...received, onEvent: () => shared.written.tell() });
  return {
    ...{ books, connections, polls, fetches, hooks, pauses },
    backfills: createBackfills(deps),
    verification: createVerification(deps),
    jobs: [...polls.jobs, ...sweepJobs({ ...deps, fetches: fetches.wakeSignal }), ...hooks.jobs],
    isCrowded: () => collector.isCrowded(),
    receiver(name) {
      if (name === WORKSPACE) return ofWorkspace;
      const active = connections.find((connection) => connection.name === name);
      return active && { active, ...received };
    },
  };
}
