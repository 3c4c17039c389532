import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** Reads a whole database file. Returns its complaints; none if the file is intact. Throws if it cannot be read. */
export type CheckFile = (file: string) => Promise<readonly string[]>;

/** Checks in a thread of its own, because a large file takes seconds of CPU. The thread ends with the answer. */
export const checkInWorker: CheckFile = async (file) => {
  const worker = new Worker(new URL('./integrity-worker.ts', import.meta.url), { workerData: { file } });
  try {
    const [complaints] = (await once(worker, 'message')) as [readonly string[]];
    return complaints;
  } finally {
    await worker.terminate();
  }
};
