/** Both caps of a workspace (W69, W70). A cap of 0 lifts it. Lengths are milliseconds. */
export interface Quota {
  readonly requests: number;
  readonly window: number;
  readonly burst: number;
  readonly burstWindow: number;
}

/** Counts of one workspace. Times must not go backwards. */
export interface Windows {
  /** Milliseconds until a request would be accepted; 0 when it would be now. The longer wait of both windows. */
  wait(now: number): number;
  add(at: number): void;
}

/** Both windows slide: in any span as long as a window at most its cap is accepted. */
export function createWindows(quota: Quota): Windows {
  const windows = [createWindow(quota.requests, quota.window), createWindow(quota.burst, quota.burstWindow)];
  return {
    wait: (now) => Math.max(...windows.map((window) => window.wait(now))),
    add: (at) => {
      for (const window of windows) window.add(at);
    },
  };
}

/** Only the last `cap` times matter: the oldest of them decides when the next is free. Kept as a ring. */
function createWindow(cap: number, length: number): Windows {
  const times: number[] = [];
  let oldest = 0;
  return {
    wait: (now) => (cap === 0 || times.length < cap ? 0 : Math.max(0, times[oldest]! + length - now)),
    add(at) {
      if (cap === 0) return;
      times[oldest] = at;
      oldest = (oldest + 1) % cap;
    },
  };
}

/** Nothing is counted where nothing is limited. */
export function isLimited(quota: Quota): boolean {
  return quota.requests > 0 || quota.burst > 0;
}

/** Slots that one row of the log stands for: one while the caps are small, never more than a fortieth of a cap. */
export function slotsPerRow(quota: Quota): number {
  const caps = [quota.requests, quota.burst].filter((cap) => cap > 0);
  return Math.max(1, Math.floor(Math.min(...caps) / 40));
}
