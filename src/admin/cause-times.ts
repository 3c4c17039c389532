import type { Cause } from './status.ts';

/** Since when each cause of one workspace is there, as far as this process saw it. */
export interface CauseTimes {
  /** Dates what the facts do not date. A cause that is gone is forgotten. */
  date(causes: readonly Cause[], now: number): readonly Cause[];
}

/** Returns a function that creates the times of a workspace once. */
export function createCauseTimesByWorkspace(): (workspace: string) => CauseTimes {
  const byWorkspace = new Map<string, CauseTimes>();
  return (workspace) => {
    const times = byWorkspace.get(workspace) ?? createCauseTimes();
    byWorkspace.set(workspace, times);
    return times;
  };
}

export function createCauseTimes(): CauseTimes {
  let since: ReadonlyMap<string, number> = new Map();
  return {
    date(causes, now) {
      // A fact may be older than the first look at it.
      since = new Map(causes.map(({ code, seenAt }) => [code, Math.min(since.get(code) ?? now, seenAt ?? now)]));
      return causes.map((cause) => ({
        ...cause,
        since: cause.since ?? (since.get(cause.code) as number),
        seenAt: cause.seenAt ?? now,
      }));
    },
  };
}
