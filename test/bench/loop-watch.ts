import { appendFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/**
 * Loaded into a daemon before everything else (`node --import`): writes down whenever the main thread worked for long between
 * two turns, one line `<epoch ms> <ms of CPU>`, into the file that `LOOP_WATCH` names. CPU of that thread alone, so that a
 * busy machine does not count.
 */
const file = process.env['LOOP_WATCH'];
/** Shorter ones are of no interest, milliseconds. */
const LEAST = 5;

if (isMainThread && file !== undefined) {
  let before = process.threadCpuUsage();
  setInterval(() => {
    const used = process.threadCpuUsage(before);
    const milliseconds = (used.user + used.system) / 1_000;
    if (milliseconds >= LEAST) appendFileSync(file, `${Date.now()} ${milliseconds}\n`);
    before = process.threadCpuUsage();
  }, 1).unref();
}
