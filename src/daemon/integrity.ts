import { rm, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SyncError } from '../errors/sync-error.ts';
import type { CheckFile } from '../lib/integrity.ts';
import type { Logger } from '../lib/logger.ts';
import type { Job } from '../lib/scheduler.ts';
import type { Store } from '../store/database.ts';

/** How often a database is read from end to end, milliseconds. */
const EVERY = 7 * 86_400_000;
/** Space that a copy must leave free on the volume, bytes. */
const LEFT_FREE = 64 * 1024 * 1024;

/**
 * Damage may lie for months in pages that nobody reads. So the whole database is read once a week: a copy of it, which
 * grows in small steps beside the running work, by a thread of its own.
 */
export function integrityJob(deps: { store: Store; checkFile: CheckFile; logger: Logger }): Job {
  return { name: 'integrity', when: { everyMs: EVERY }, run: () => checkIntegrity(deps) };
}

/** Where damage is found, the store's fault tells it. Throws `disk_full` where there is no space for the copy. */
export async function checkIntegrity({ store, checkFile, logger }: Parameters<typeof integrityJob>[0]): Promise<void> {
  const copy = `${store.file}.check`;
  await removeDatabase(copy);
  await findSpace(store);
  try {
    await store.backup(copy);
    const complaints = await checkFile(copy);
    for (const complaint of complaints) store.condemn(complaint);
    if (complaints.length === 0) logger.info({ bytes: store.size() }, 'the database is sound');
  } finally {
    await removeDatabase(copy);
  }
}

async function findSpace(store: Store): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(store.file));
  const needed = store.size() + LEFT_FREE;
  if (bavail * bsize >= needed) return;
  const hint = `Leave ${Math.ceil(needed / 1e6)} MB free on the volume of the data folder: a copy of the database is checked.`;
  throw new SyncError('disk_full', `${store.file} could not be checked: no space for a copy`, { hint });
}

async function removeDatabase(file: string): Promise<void> {
  for (const suffix of ['', '-wal', '-shm', '-journal']) await rm(file + suffix, { force: true });
}
