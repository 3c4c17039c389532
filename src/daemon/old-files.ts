import { join } from 'node:path';
import { asSyncError, type SyncError } from '../errors/sync-error.ts';
import type { CheckFile } from '../lib/integrity.ts';
import type { Logger } from '../lib/logger.ts';
import type { Installation } from '../store/installation.ts';
import { oldWorkspaces, takeOver } from '../store/takeover/take-over.ts';

interface Takeover {
  /** The data folder. */
  readonly folder: string;
  readonly installation: Installation;
  readonly checkFile: CheckFile;
  readonly logger: Logger;
}

/**
 * Earlier versions kept a file for each workspace: those that are left are taken over into `worksync.db`, of workspaces
 * that are not configured any more too.
 *
 * @returns the workspaces whose file had to stay out, and why
 */
export async function takeOverOldFiles({ folder, ...rest }: Takeover): Promise<ReadonlyMap<string, SyncError>> {
  const { installation, checkFile, logger } = rest;
  const left = new Map<string, SyncError>();
  for (const workspace of oldWorkspaces(folder)) {
    const file = join(folder, `${workspace}.db`);
    try {
      const { rows } = await takeOver(installation, { workspace, file, checkFile });
      if (rows > 0)
        logger.info({ workspace, rows, file }, 'the rows of a workspace moved from its old file into worksync.db');
    } catch (error) {
      left.set(workspace, asSyncError(error));
    }
  }
  return left;
}
