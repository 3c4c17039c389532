import type { Lease } from '../cluster/holder.ts';
import type { TokenBook } from '../gateway/token-book.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Meter } from '../platform/lib/meter.ts';
import type { Random } from '../platform/lib/random.ts';
import type { Scheduler } from '../platform/lib/scheduler.ts';
import type { Tracer } from '../platform/lib/tracer.ts';
import type { WakeSignal } from '../platform/lib/wake-signal.ts';
import type { Store } from '../store/database.ts';
import type { Installation } from '../store/installation.ts';
import type { GroupCommit } from '../sync/intake/append.ts';
import type { Grants } from '../sync/intake/grants.ts';
import type { Throttle } from '../sync/quota/throttle.ts';
import type { Converter } from '../sync/worker/converter.ts';
import type { WorkspaceAddress } from './workspace-api.ts';

/** They outlive one opening of the workspace: see `workspaces.ts`. */
export interface PartitionBells {
  readonly inbox: WakeSignal;
  readonly outbox: WakeSignal;
}

export interface PartitionOptions {
  readonly config: WorkspaceConfig;
  readonly address: WorkspaceAddress;
  /** The lease by which the process owns it. */
  readonly lease: Lease;
  readonly installation: Installation;
  /** By which its ledger is kept from now on. */
  readonly ledgerClock: () => Promise<Clock>;
  /** What differs where another process may have worked on it until it died; milliseconds. */
  readonly succession?: Succession;
  /** Of the program. */
  readonly version: string;
  /** The process's. */
  readonly converter: Converter;
  /** Of the whole process: workspaces may share a grant. */
  readonly grants: Grants;
  /** The process's. */
  readonly scheduler: Scheduler;
  readonly wakeSignals: PartitionBells;
  /** The process's. */
  readonly groupCommit: GroupCommit;
  readonly tokenBook: TokenBook;
  /** The public address of the daemon, if configured. */
  readonly publicUrl?: string;
  /** The process's; absent: no traces are made. */
  readonly tracer?: Tracer;
  /** Told of each delivery's lag, milliseconds. */
  readonly onLag?: (milliseconds: number) => void;
}

/** How a workspace is taken over whose owner died, milliseconds. */
export interface Succession {
  /** How long few requests are in flight. */
  readonly careful: number;
  /** How long nothing is sent about what the other one was sending: it may still be on its way. */
  readonly untouched: number;
}

/** What all stages of a partition work with. */
export interface PartitionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  readonly tracer?: Tracer;
  readonly throttle: Throttle;
  readonly written: Written;
}

/** That the daemon has written to the workspace; one listens. */
export interface Written {
  tell(): void;
  listen(call: () => void): void;
}

export function createWritten(): Written {
  let call = (): void => undefined;
  return {
    tell: () => call(),
    listen(next) {
      call = next;
    },
  };
}
