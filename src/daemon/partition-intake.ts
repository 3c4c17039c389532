import type { ActiveConnection } from '../intake/active-connection.ts';
import { type Backfills, createBackfills } from '../intake/backfill-stage.ts';
import { createCollector } from '../intake/collector.ts';
import { createFetches, type Fetches } from '../intake/fetches.ts';
import { createHookWatch, type HookWatch } from '../intake/hook-watch.ts';
import { createPauses, type Pauses } from '../intake/pauses.ts';
import { createPolls, type Polls } from '../intake/polls.ts';
import { sweepJobs } from '../intake/sweeps.ts';
import { createVerification } from '../intake/verify-items.ts';
import { type Receiver, webhookUrlOf } from '../intake/webhook-routes.ts';
import type { Job } from '../lib/scheduler.ts';
import type { Stage } from '../lib/stage.ts';
import { WORKSPACE } from '../store/workspace-answers.ts';
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
