import { appendFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/**
 * Loaded into a daemon before everything else (`node --import`): writes down whenever the main thread worked for long between
 * two turns, one line `<epoch ms> <ms of CPU> <ms of the wall clock> <turns since the line before>`, into the file that
 * `LOOP_WATCH` names. CPU of that thread alone, so that a busy machine does not count.
 */
const file = process.env['LOOP_WATCH'];
/** Shorter ones are only counted, milliseconds. */
const LEAST = 5;

if (isMainThread && file !== undefined) {
  let before = process.threadCpuUsage();
  let at = performance.now();
  let turns = 0;
  setInterval(() => {
    const used = process.threadCpuUsage(before);
    const cpu = (used.user + used.system) / 1_000;
    const wall = performance.now() - at;
    turns++;
    if (cpu >= LEAST || wall >= LEAST) {
      appendFileSync(file, `${Date.now()} ${cpu} ${wall} ${turns}\n`);
      turns = 0;
    }
    before = process.threadCpuUsage();
    at = performance.now();
  }, 1).unref();
}
