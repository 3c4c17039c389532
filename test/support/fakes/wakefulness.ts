export type Wakefulness = ReturnType<typeof createWakefulness>;

/** State of a process that SIGSTOP may pause and SIGKILL may end. A call waits during the pause, and is dropped after the end. */
export function createWakefulness() {
  let isAlive = true;
  let isAsleep = false;
  let late: (() => void)[] = [];

  /** Calls now, when the process wakes up, or never. */
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
