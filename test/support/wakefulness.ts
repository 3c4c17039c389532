/** What a process may be kept from by SIGSTOP, and for good by SIGKILL: whatever calls it waits meanwhile, or is never heard. */
export interface Wakefulness {
  isAlive(): boolean;
  isAwake(): boolean;
  /** Calls now, when it wakes up, or never. */
  whenAwake(call: () => void): void;
  kill(): void;
  sleep(): void;
  wake(): void;
}

export function createWakefulness(): Wakefulness {
  let isAlive = true;
  let isAsleep = false;
  let late: (() => void)[] = [];

  function whenAwake(call: () => void): void {
    if (!isAlive) return;
    if (isAsleep) late.push(call);
    else call();
  }

  return {
    isAlive: () => isAlive,
    isAwake: () => isAlive && !isAsleep,
    whenAwake,
    kill() {
      isAlive = false;
      late = [];
    },
    sleep: () => void (isAsleep = true),
    wake() {
      isAsleep = false;
      const calls = late;
      late = [];
      for (const call of calls) whenAwake(call);
    },
  };
}
