/** What a process tells the others of itself, beside its leases. */
export interface ReplicaFacts {
  /** Of the program. */
  readonly version: string;
  /** Hash of the workspaces as they are configured, without secrets: all processes of an installation should have the same. */
  readonly config: string;
  /** Epoch milliseconds, by its own clock. */
  readonly startedAt: number;
  /** Name of its machine, or container. */
  readonly host: string;
  /** Where its pages are, and what commands ask; absent: at its address. */
  readonly adminAddress?: string | undefined;
}

/** One of the processes that share a database, as the last renewal saw it. */
export interface SeenReplica extends ReplicaFacts {
  readonly id: string;
  /** Where it answers, for the others. */
  readonly address: string;
  readonly isOwn: boolean;
}

/** A version of tomorrow may say more, and one of yesterday less. */
export function readFacts(text: string): ReplicaFacts {
  const {
    version = '',
    config = '',
    startedAt = 0,
    host = '',
    adminAddress,
  } = JSON.parse(text) as Partial<ReplicaFacts>;
  return { version, config, startedAt, host, adminAddress };
}
