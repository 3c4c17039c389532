/** Requests of one API key since the service started. */
export interface KeyStatistics {
  /** All that carried the key, refused ones included. */
  readonly received: number;
  /** Answered 429. */
  readonly refused: number;
}

/** Counts what the service received, independently of what its clients believe to have sent. */
export interface Statistics {
  accepted(credentialId: string): void;
  refused(credentialId: string): void;
  byKey(): ReadonlyMap<string, KeyStatistics>;
}

export function createStatistics(): Statistics {
  const keys = new Map<string, { received: number; refused: number }>();
  const of = (credentialId: string) => {
    const known = keys.get(credentialId) ?? { received: 0, refused: 0 };
    keys.set(credentialId, known);
    return known;
  };
  return {
    accepted: (credentialId) => void of(credentialId).received++,
    refused(credentialId) {
      const counts = of(credentialId);
      counts.received += 1;
      counts.refused += 1;
    },
    byKey: () => keys,
  };
}
