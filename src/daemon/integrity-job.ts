import { rm, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SyncError } from '../model/errors/sync-error.ts';
import type { CheckFile } from '../platform/lib/integrity.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Job } from '../platform/lib/scheduler.ts';
import type { Installation } from '../store/installation.ts';

/** How often a database is read from end to end, milliseconds. */
const EVERY = 7 * 86_400_000;
/** Space that a copy must leave free on the volume, bytes. */
const LEFT_FREE = 64 * 1024 * 1024;

type Checked = Pick<Installation, 'file' | 'asFile' | 'condemn' | 'size'>;

interface Check {
  readonly database: Checked;
  readonly checkFile: CheckFile;
  readonly logger: Logger;
}

/**
 * Damage may lie for months in pages that nobody reads. So the whole database is read once a week: a copy of it, which
 * grows in small steps beside the running work, by a thread of its own.
 */
export function integrityJob(check: Check): Job {
  return { name: 'integrity', when: { everyMs: EVERY }, run: () => checkIntegrity(check) };
}

/** Damage shows as a fault of the database. Throws `disk_full` where there is no space for the copy. */
export async function checkIntegrity({ database, checkFile, logger }: Check): Promise<void> {
  // A server has its own checks.
  if (!database.asFile) return;
  const copy = `${database.file}.check`;
  await removeDatabase(copy);
  await findSpace(database);
  try {
    await database.asFile.backup(copy);
    const complaints = await checkFile(copy);
    for (const complaint of complaints) database.condemn(complaint);
    if (complaints.length === 0) logger.info({ bytes: database.size() }, 'the database is intact');
  } finally {
    await removeDatabase(copy);
  }
}

async function findSpace({ file, size }: Checked): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(file));
  const needed = size() + LEFT_FREE;
  if (bavail * bsize >= needed) return;
  const hint = `Leave ${Math.ceil(needed / 1e6)} MB free on the volume of the data folder: worksync checks a copy of the database.`;
  throw new SyncError('disk_full', `${file} could not be checked: there is no space for a copy`, { hint });
}

async function removeDatabase(file: string): Promise<void> {
  for (const suffix of ['', '-wal', '-shm', '-journal']) await rm(file + suffix, { force: true });
}
