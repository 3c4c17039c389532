import { Worker } from 'node:worker_threads';
import type { Cancel, Clock } from './clock.ts';

/** The limits of one piece of work. */
export interface WorkBudget {
  /** CPU of the thread, milliseconds. */
  readonly cpu: number;
  /** Elapsed time until the answer, milliseconds: also limits work that waits or gets no CPU. */
  readonly wall: number;
}

/** The work exceeded its time, or the memory of the thread. The thread was ended, and with it the work. */
export class OverBudget extends Error {
  readonly what: 'time' | 'memory';

  constructor(what: 'time' | 'memory', message: string) {
    super(message);
    this.what = what;
  }
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

/** The first message of the thread's program, when it is loaded: its time counts from then on. */
export const READY = 'ready';
/** Milliseconds that the start may take: a busy machine takes many times longer than a second. */
const LONGEST_START = 60_000;

/** Milliseconds between two checks of the cost of the work. */
const LOOK = 50;
const IDLE = 5_000;

/**
 * One thread for work that must not block the process. It is started when there is work, handles one piece after the other, and
 * ends after some idle time. A piece that exceeds its budget ends with the thread; the next piece gets a new thread.
 */
export function createWorkerHost({ program, clock, memory, idle = IDLE }: WorkerHostOptions) {
  let thread: Worker | undefined;
  let cancelIdle: Cancel = () => undefined;
  let last: Promise<unknown> = Promise.resolve();

  async function started(): Promise<Worker> {
    cancelIdle();
    if (thread) return thread;
    // It has the flags of the process, and so Node's permission model: a thread with flags of its own would not.
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
    /**
     * Sends `input` to the thread and resolves with its answer. Both must be cloneable. Throws `OverBudget`, or the error that ended
     * the thread.
     */
    run(input: unknown, budget: WorkBudget, transfer: readonly ArrayBuffer[] = []): Promise<unknown> {
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

/** Sends a message to the thread, and resolves with its next one. */
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

/** Checks repeatedly what the thread has used since now. */
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
