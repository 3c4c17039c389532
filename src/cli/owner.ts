import { asSyncError, SyncError } from '../errors/sync-error.ts';
import { createHttpClient, type HttpAnswer, type HttpClient } from '../http/http-client.ts';
import { systemClock } from '../lib/clock.ts';
import { silentMeter } from '../lib/meter.ts';
import { noSteps } from '../lib/steps.ts';
import { findOwner, type Owner } from '../store/data-folder.ts';
import { type Failure, REFUSED } from '../web/admin-routes.ts';
import { audibly } from './patience.ts';
import { span } from './words.ts';

const clock = systemClock();

/** What the daemon answers from its own database it answers within this, milliseconds. */
const ANSWER = 30_000;
/** What lives answers at once, milliseconds. */
const SIGN_OF_LIFE = 5_000;

function ownerClient(patience: number): HttpClient {
  const timeouts = { headers: patience, body: patience, total: patience };
  return createHttpClient({ steps: noSteps, meter: silentMeter, timeouts });
}

/** Whether a daemon that owns the data folder answers. Throws `unauthorized` where this user may not ask it. */
export async function hasOwner(dataFolder: string): Promise<boolean> {
  try {
    await findLiving(dataFolder);
    return true;
  } catch (error) {
    if (asSyncError(error).code === 'unauthorized') throw error;
    return false;
  }
}

/** Throws `not_running` where no daemon answers, the error where it answers wrongly or too late. */
export async function findLiving(dataFolder: string): Promise<void> {
  await ask(dataFolder, 'GET', '/livez', undefined, SIGN_OF_LIFE);
}

/**
 * Asks the daemon that owns the data folder. Throws `not_running` where none answers, `not_answering` where it takes
 * longer than `patience`.
 *
 * @param patience milliseconds
 * @param silence milliseconds of it after which it is said that the command waits
 */
export async function askOwner<Answer>(
  dataFolder: string,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
  patience = ANSWER,
  silence?: number,
): Promise<Answer> {
  const answer = await audibly('the daemon', patience, () => ask(dataFolder, method, path, body, patience), silence);
  return JSON.parse(answer.toString()) as Answer;
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
  const started = clock.monotonic();
  const answer = await request(owner, method, path, body, patience).catch((error: unknown) => {
    if (asSyncError(error).code === 'unreachable') throw notRunning(dataFolder);
    throw clock.monotonic() - started < patience ? error : notAnswering(owner, patience);
  });
  if (answer.status === 200) return answer.body;
  if (answer.status === REFUSED || answer.status === 400) throw refusal(JSON.parse(answer.body.toString()) as Failure);
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
    const url = `${address}${path}`;
    const authorization = `Bearer ${token}`;
    if (method === 'GET') return await http.request({ method, url, headers: { authorization }, target: 'daemon' });
    const headers = { authorization, 'content-type': 'application/json' };
    return await http.request({ method, url, headers, body: JSON.stringify(body ?? {}), target: 'daemon' });
  } finally {
    await http.close();
  }
}

function notAnswering({ address }: Owner, patience: number): SyncError {
  return new SyncError('not_answering', `the daemon at ${address} did not answer within ${span(patience)}`);
}

/** A failure in the daemon, as if it were the command's own. */
export function refusal({ failure: { code, message, ...details } }: Failure): SyncError {
  return new SyncError(code, message, details);
}

function notRunning(dataFolder: string): SyncError {
  return new SyncError('not_running', `no daemon answers for the data folder "${dataFolder}"`);
}
