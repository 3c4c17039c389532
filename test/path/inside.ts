import { Session } from 'node:inspector';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { TOP } from '../support/harness/processes.ts';

/**
 * For `node --import` in a process with an IPC channel: answers each message with the files of `src` that have run in the main
 * thread since the previous message.
 */

const SRC = pathToFileURL(join(TOP, 'src/')).href;

if (isMainThread && process.send) {
  const session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.startPreciseCoverage', { callCount: true });
  process.on('message', () => {
    session.post('Profiler.takePreciseCoverage', (error, coverage) => {
      if (error) throw error;
      const ran = coverage.result.filter(
        ({ url, functions }) => url.startsWith(SRC) && functions.some(({ ranges }) => ranges[0]!.count > 0),
      );
      process.send?.(ran.map(({ url }) => url.slice(SRC.length)));
    });
  });
  // The daemon ends although the channel is open.
  process.channel?.unref();
}
