import { type Failure, REFUSED } from '../daemon/admin.ts';
import { findOwner, type Owner } from '../daemon/data-folder.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import { createHttpClient, type HttpAnswer, type HttpClient } from '../http/client.ts';
import { silentMeter } from '../lib/meter.ts';
import { noSteps } from '../lib/steps.ts';

/** A command may wait for as long as the quota makes it wait, milliseconds. */
const PATIENCE = 3_600_000;
/** What lives answers at once, milliseconds. */
const SIGN_OF_LIFE = 5_000;

function ownerClient(patience: number): HttpClient {
  const timeouts = { headers: patience, body: patience, total: patience };
  return createHttpClient({ steps: noSteps, meter: silentMeter, timeouts });
}

/** Whether a daemon that owns the data folder answers. */
export async function hasOwner(dataFolder: string): Promise<boolean> {
  return findLiving(dataFolder).then(
    () => true,
    () => false,
  );
}

/** Throws `not_running` where no daemon answers, the error where it answers wrongly or too late. */
export async function findLiving(dataFolder: string): Promise<void> {
  await ask(dataFolder, 'GET', '/livez', undefined, SIGN_OF_LIFE);
}

/** Asks the daemon that owns the data folder. Throws `not_running` where none answers. */
export async function askOwner<Answer>(
  dataFolder: string,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
): Promise<Answer> {
  return JSON.parse((await ask(dataFolder, method, path, body, PATIENCE)).toString()) as Answer;
}

async function ask(
  dataFolder: string,
  method: 'GET' | 'POST',
  path: string,
  body: unknown,
  patience: number,
): Promise<Buffer> {
  const owner = findOwner(dataFolder);
  if (!owner) throw notRunning(dataFolder);
  const answer = await request(owner, method, path, body, patience).catch((error: unknown) => {
    throw asSyncError(error).code === 'unreachable' ? notRunning(dataFolder) : error;
  });
  if (answer.status === 200) return answer.body;
  if (answer.status === REFUSED) throw refusal(JSON.parse(answer.body.toString()) as Failure);
  const code = answer.status === 401 || answer.status === 403 ? 'unauthorized' : 'server_failed';
  throw new SyncError(code, `the daemon at ${owner.address} answered ${answer.status}`);
}

async function request(
  { address, token }: Owner,
  method: 'GET' | 'POST',
  path: string,
  body: unknown,
  patience: number,
): Promise<HttpAnswer> {
  const http = ownerClient(patience);
  try {
    const headers = { authorization: `Bearer ${token}` };
    const text = body === undefined ? undefined : JSON.stringify(body);
    return await http.request({ method, url: `${address}${path}`, headers, body: text, target: 'daemon' });
  } finally {
    await http.close();
  }
}

function refusal({ failure: { code, message, hint } }: Failure): SyncError {
  return new SyncError(code, message, { hint });
}

function notRunning(dataFolder: string): SyncError {
  return new SyncError('not_running', `no daemon answers for the data folder "${dataFolder}"`);
}
