import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';

/** The error for a list that the vendor has switched off. @param what `issues of acme/web` */
export function switchedOff(what: string): SyncError {
  return new SyncError('feature_off', `${what} are switched off at the vendor`);
}

/**
 * Reads a list. Where the vendor refuses it or does not find it, asks whether it is switched off, and throws `feature_off` then.
 *
 * @param offOf what is switched off at this moment, as in `switchedOff`; undefined where nothing is
 */
export async function unlessOff<Result>(
  read: () => Promise<Result>,
  offOf: () => Promise<string | undefined>,
): Promise<Result> {
  try {
    return await read();
  } catch (thrown) {
    const { code } = asSyncError(thrown);
    if (code !== 'forbidden' && code !== 'not_found') throw thrown;
    // Whatever keeps the vendor from answering, the first refusal says more.
    const what = await offOf().catch(() => undefined);
    throw what === undefined ? thrown : switchedOff(what);
  }
}
