import { findOwner, type Owner } from '../daemon/data-folder.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import type { HttpClient } from '../http/client.ts';

/** Asks the daemon that owns the data folder. Throws `not_running` where none answers. */
export async function askOwner<Answer>(http: HttpClient, dataFolder: string, path: string): Promise<Answer> {
  const owner = findOwner(dataFolder);
  if (!owner) throw notRunning(dataFolder);
  const answer = await request(http, owner, path).catch((error: unknown) => {
    throw asSyncError(error).code === 'unreachable' ? notRunning(dataFolder) : error;
  });
  if (answer.status === 200) return JSON.parse(answer.body.toString()) as Answer;
  throw new SyncError('unauthorized', `the daemon at ${owner.address} answered ${answer.status}`);
}

function request(http: HttpClient, { address, token }: Owner, path: string) {
  return http.request({
    method: 'GET',
    url: `${address}${path}`,
    headers: { authorization: `Bearer ${token}` },
    target: 'daemon',
  });
}

function notRunning(dataFolder: string): SyncError {
  return new SyncError('not_running', `no daemon answers for the data folder "${dataFolder}"`);
}
