import type { Clock } from '../../src/platform/lib/clock.ts';
import type { Steps } from '../../src/platform/lib/telemetry.ts';
import type { TravellingClock } from '../support/fakes/travelling-clock.ts';
import { createWakefulness } from '../support/fakes/wakefulness.ts';

export class ProcessEnded extends Error {
  override readonly message = 'the process has ended';
}

/** A machine: its wall clock may be wrong, and jumps. */
export interface Machine {
  ahead: number;
  boots: number;
  bootedAt: number;
}

export type Life = ReturnType<typeof createLife>;

export function createLife(name: string, replica: number, world: TravellingClock, machine: Machine) {
  const life = createWakefulness();
  let stepsLeft = Number.POSITIVE_INFINITY;
  let ended: () => void = () => undefined;
  let waiting: { stepsLeft: number; readonly reached: () => void } | undefined;
  const timers = new Set<object>();
  let requests = 0;

  /** Throws where it has ended. */
  const check = () => {
    if (!life.isAlive()) throw new ProcessEnded();
  };
  return {
    ...{ ...life, name, replica, check, timers: () => timers.size, requests: () => requests },
    /** So many requests more, or fewer, wait for their answers. */
    asks(more: number) {
      requests += more;
    },
    clock: {
      now: () => world.now() + machine.ahead,
      monotonic: () => world.elapsed() - machine.bootedAt,
      bootId: `machine-${replica}-${machine.boots}`,
      after(ms, call) {
        let isWanted = true;
        const timer = {};
        timers.add(timer);
        const ring = () => {
          timers.delete(timer);
          if (isWanted) call();
        };
        // As the timers of the runtime: whole milliseconds, and one at least.
        const cancel = world.after(Math.max(1, Math.floor(ms)), () => life.whenAwake(ring));
        return () => {
          isWanted = false;
          timers.delete(timer);
          cancel();
        };
      },
    } satisfies Clock,
    steps: {
      reached() {
        check();
        if (waiting && --waiting.stepsLeft <= 0) {
          const { reached } = waiting;
          waiting = undefined;
          reached();
        }
        if (--stepsLeft > 0) return;
        life.kill();
        ended();
        check();
      },
    } as Steps,
    /** It ends at the step so many steps from now; `call` is told then. */
    killAfter(steps: number, call: () => void) {
      stepsLeft = steps;
      ended = call;
    },
    /** It lives on, and `reached` is told at the step so many steps from now. */
    tellAfter(steps: number, reached: () => void) {
      waiting = { stepsLeft: steps, reached };
    },
  };
}

/**
 * Lets whatever is ready run, until all that is left waits for time to pass: so a run takes the same course however long a disk
 * takes. In each turn of the event loop all promises and ticks run to their end.
 */
export async function rest(): Promise<void> {
  do await nextTurn();
  while (isUnderWay());
}

/** Turns that somebody here waits for. */
let awaited = 0;

/** Work for another turn, and what the runtime has asked the system for, as of a file. Timers and sockets are none of ours. */
function isUnderWay(): boolean {
  let turns = 0;
  for (const resource of process.getActiveResourcesInfo()) {
    if (resource.includes('Req')) return true;
    if (resource === 'Immediate') turns++;
  }
  return turns > awaited;
}

function nextTurn(): Promise<void> {
  awaited++;
  return new Promise((resolve) =>
    setImmediate(() => {
      awaited--;
      resolve();
    }),
  );
}
