import { parentPort } from 'node:worker_threads';
import { connectors } from '../connectors/registry.ts';
import { READY } from '../lib/worker-host.ts';
import { perform, type Task } from './tasks.ts';

/** The thread in which large bodies are read. */
parentPort?.postMessage(READY);
parentPort?.on('message', (task: Task) => parentPort?.postMessage(perform(task, connectors)));
