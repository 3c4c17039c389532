import { parentPort, workerData } from 'node:worker_threads';
import { complaintsOf } from '../database/sqlite.ts';

const { file } = workerData as { readonly file: string };
parentPort?.postMessage(complaintsOf(file));
