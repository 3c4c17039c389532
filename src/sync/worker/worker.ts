import { parentPort } from 'node:worker_threads';
import { connectors } from '../../connectors/registry.ts';
import { buffersOf } from '../../platform/lib/shape.ts';
import { READY } from '../../platform/lib/worker-host.ts';
import { performTask, type WorkerTask } from './thread-tasks.ts';

/** The program of the worker thread, which parses large bodies. */
parentPort?.postMessage(READY);
parentPort?.on('message', (task: WorkerTask) => {
  const result = performTask(task, connectors);
  // Large texts are transferred, because a copy would be made on the main thread.
  const isContent = 'value' in result && 'content' in result.value;
  parentPort?.postMessage(result, isContent ? buffersOf(result.value.content) : []);
});
