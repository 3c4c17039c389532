import { Worker } from 'node:worker_threads';
import type { Cancel, Clock } from './clock.ts';

/** The limits of one piece of work. */
export interface WorkBudget {
  /** CPU of the thread, milliseconds. */
  readonly cpu: number;
  /** Time that passes until the answer, milliseconds: for what waits or is kept from its turn. */
  readonly wall: number;
}

/** The work took more than it may, or more memory than the thread has. The thread was ended, and with it the work. */
export class OverBudget extends Error {
  readonly what: 'time' | 'memory';

  constructor(what: 'time' | 'memory', message: string) {
    super(message);
    this.what = what;
  }
}

/**
 * One thread for work that must not hold up the process. It is started when there is work, does one piece after the other, and
 * ends when it was idle for a while. A piece that exceeds its budget ends with the thread; the next piece gets a new thread.
 */
export interface WorkerHost {
  /**
   * Sends `input` to the thread and resolves with its answer. Both must be cloneable.
   * Throws `OverBudget`, or what ended the thread.
   */
  run(input: unknown, budget: WorkBudget, transfer?: readonly ArrayBuffer[]): Promise<unknown>;
  close(): Promise<void>;
}

interface WorkerHostOptions {
  /** The thread's program: it sends `READY`, and then answers each message of `parentPort` with one. */
  readonly program: URL;
  readonly clock: Clock;
  /** Heap of the thread, MiB. */
  readonly memory: number;
  /** Milliseconds without work after which the thread ends. */
  readonly idle?: number;
}

/** What the thread's program says first, when it is loaded: from then on time counts. */
export const READY = 'ready';
/** Milliseconds: a busy machine takes many times longer than a second. */
const LONGEST_START = 60_000;

/** How often the cost of the work is checked, milliseconds. */
const LOOK = 50;
const IDLE = 5_000;

export function createWorkerHost({ program, clock, memory, idle = IDLE }: WorkerHostOptions): WorkerHost {
  let thread: Worker | undefined;
  let cancelIdle: Cancel = () => undefined;
  let last: Promise<unknown> = Promise.resolve();

  async function started(): Promise<Worker> {
    cancelIdle();
    if (thread) return thread;
    // It has the flags of the process, and with them Node's permission model: a thread with flags of its own would not.
    const worker = new Worker(program, { resourceLimits: { maxOldGenerationSizeMb: memory }, name: 'worksync' });
    // A caller that waits for an answer keeps the process alive, and gets errors itself.
    worker.unref();
    worker.on('error', () => undefined);
    worker.once('exit', () => {
      if (thread === worker) thread = undefined;
    });
    thread = worker;
    await answerOf(
      worker,
      () => undefined,
      () => clock.after(LONGEST_START, () => void worker.terminate()),
    );
    return worker;
  }

  async function end(): Promise<void> {
    const ending = thread;
    thread = undefined;
    await ending?.terminate();
  }

  async function work(input: unknown, budget: WorkBudget, transfer: readonly ArrayBuffer[]): Promise<unknown> {
    try {
      const worker = await started();
      const send = () => worker.postMessage(input, [...transfer]);
      return await answerOf(worker, send, (giveUp) => watch(worker, budget, clock, giveUp));
    } catch (error) {
      await end();
      throw error;
    } finally {
      cancelIdle();
      cancelIdle = clock.after(idle, () => void end());
    }
  }

  return {
    run(input, budget, transfer = []) {
      const result = last.then(() => work(input, budget, transfer));
      last = result.catch(() => undefined);
      return result;
    },
    async close() {
      cancelIdle();
      await end();
    },
  };
}

type GiveUp = (error: OverBudget) => void;

/** The next message of the thread, after something was sent to it. */
async function answerOf(worker: Worker, send: () => void, watched: (giveUp: GiveUp) => Cancel): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const onExit = () => reject(new Error('the thread ended without an answer'));
  const onError = (error: NodeJS.ErrnoException) =>
    reject(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? new OverBudget('memory', error.message) : error);
  worker.once('message', resolve).once('error', onError).once('exit', onExit);
  worker.ref();
  const cancel = watched(reject);
  try {
    send();
    return await promise;
  } finally {
    cancel();
    worker.off('message', resolve).off('error', onError).off('exit', onExit);
    worker.unref();
  }
}

/** Looks from time to time at what the thread took since now. */
function watch(worker: Worker, budget: WorkBudget, clock: Clock, giveUp: GiveUp): Cancel {
  let before: NodeJS.CpuUsage | undefined;
  let isOver = false;
  let cancelLook: Cancel = () => undefined;
  const look = async () => {
    // It rejects if the thread is gone, which is reported elsewhere.
    const used = await worker.cpuUsage(before).catch(() => undefined);
    if (isOver) return;
    if (before === undefined) before = used;
    else if (used && (used.user + used.system) / 1_000 > budget.cpu)
      return giveUp(new OverBudget('time', `more than ${Math.round(budget.cpu)} ms of CPU`));
    cancelLook = clock.after(LOOK, () => void look());
  };
  void look();
  const cancelWall = clock.after(budget.wall, () => giveUp(new OverBudget('time', 'no answer in time')));
  return () => {
    isOver = true;
    cancelLook();
    cancelWall();
  };
}
