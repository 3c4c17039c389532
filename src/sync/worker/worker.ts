import { parentPort } from 'node:worker_threads';
import { connectors } from '../../connectors/registry.ts';
import { buffersOf } from '../../platform/lib/json-apart.ts';
import { READY } from '../../platform/lib/worker-host.ts';
import { perform, type Task } from './thread-tasks.ts';

/** The thread in which large bodies are read. */
parentPort?.postMessage(READY);
parentPort?.on('message', (task: Task) => {
  const done = perform(task, connectors);
  // Copies of large texts would be made on the main thread.
  const isContent = 'value' in done && 'content' in done.value;
  parentPort?.postMessage(done, isContent ? buffersOf(done.value.content) : []);
});
