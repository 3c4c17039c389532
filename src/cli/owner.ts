import { findOwner, type Owner } from '../daemon/data-folder.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import { createHttpClient, type HttpAnswer, type HttpClient } from '../http/client.ts';
import { silentMeter } from '../lib/meter.ts';
import { noSteps } from '../lib/steps.ts';

/** A command may wait for as long as the quota makes it wait, milliseconds. */
const PATIENCE = 3_600_000;

function ownerClient(): HttpClient {
  const timeouts = { headers: PATIENCE, body: PATIENCE, total: PATIENCE };
  return createHttpClient({ steps: noSteps, meter: silentMeter, timeouts });
}

/** Whether a daemon that owns the data folder answers. */
export async function hasOwner(dataFolder: string): Promise<boolean> {
  const owner = findOwner(dataFolder);
  if (!owner) return false;
  return request(owner, 'GET', '/livez').then(
    () => true,
    () => false,
  );
}

/** Asks the daemon that owns the data folder. Throws `not_running` where none answers. */
export async function askOwner<Answer>(
  dataFolder: string,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
): Promise<Answer> {
  const owner = findOwner(dataFolder);
  if (!owner) throw notRunning(dataFolder);
  const answer = await request(owner, method, path, body).catch((error: unknown) => {
    throw asSyncError(error).code === 'unreachable' ? notRunning(dataFolder) : error;
  });
  if (answer.status === 200) return JSON.parse(answer.body.toString()) as Answer;
  throw new SyncError('unauthorized', `the daemon at ${owner.address} answered ${answer.status}`);
}

async function request(
  { address, token }: Owner,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
): Promise<HttpAnswer> {
  const http = ownerClient();
  try {
    const headers = { authorization: `Bearer ${token}` };
    const text = body === undefined ? undefined : JSON.stringify(body);
    return await http.request({ method, url: `${address}${path}`, headers, body: text, target: 'daemon' });
  } finally {
    await http.close();
  }
}

function notRunning(dataFolder: string): SyncError {
  return new SyncError('not_running', `no daemon answers for the data folder "${dataFolder}"`);
}
