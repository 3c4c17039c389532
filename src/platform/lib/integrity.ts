import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** Reads a whole database file. Returns its complaints; none if the file is intact. Throws where it cannot be read. */
export type CheckFile = (file: string) => Promise<readonly string[]>;

/** In a thread of its own, which ends with the answer: the check of a large file takes seconds of CPU. */
export const checkInWorker: CheckFile = async (file) => {
  const worker = new Worker(new URL('./integrity-worker.ts', import.meta.url), { workerData: { file } });
  try {
    const [complaints] = (await once(worker, 'message')) as [readonly string[]];
    return complaints;
  } finally {
    await worker.terminate();
  }
};
