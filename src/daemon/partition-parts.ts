import type { WorkspaceConfig } from '../config/schema.ts';
import type { Converter } from '../convert/converter.ts';
import type { TokenBook } from '../gateway/token-book.ts';
import type { Grants } from '../intake/grants.ts';
import type { GroupCommit } from '../intake/group-commit.ts';
import type { Lease } from '../lease/holder.ts';
import type { Bell } from '../lib/bell.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import type { Random } from '../lib/random.ts';
import type { Scheduler } from '../lib/scheduler.ts';
import type { Store } from '../store/database.ts';
import type { Installation } from '../store/installation.ts';
import type { Throttle } from '../throttle/throttle.ts';
import type { WorkspaceAddress } from './workspace-api.ts';

/** They outlive one opening of the workspace: see `workspaces.ts`. */
export interface PartitionBells {
  readonly inbox: Bell;
  readonly outbox: Bell;
}

export interface PartitionOptions {
  readonly config: WorkspaceConfig;
  readonly address: WorkspaceAddress;
  /** The lease by which the process owns it. */
  readonly lease: Lease;
  readonly installation: Installation;
  /** Of the program. */
  readonly version: string;
  /** The process's. */
  readonly converter: Converter;
  /** Of the whole process: workspaces may share a grant. */
  readonly grants: Grants;
  /** The process's. */
  readonly scheduler: Scheduler;
  readonly bells: PartitionBells;
  /** The process's. */
  readonly groupCommit: GroupCommit;
  readonly tokenBook: TokenBook;
  /** The public address of the daemon, if configured. */
  readonly publicUrl?: string;
  /** Told of each delivery's lag, milliseconds. */
  readonly onLag?: (milliseconds: number) => void;
}

/** What all stages of a partition work with. */
export interface PartitionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
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
