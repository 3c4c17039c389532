import { existsSync } from 'node:fs';
import type { NotNull } from 'kysely';
import { asSyncError } from '../../model/errors/sync-error.ts';
import { copyDatabase } from '../../platform/database/sqlite.ts';
import { openTables } from '../installation/installation.ts';
import { countRows } from '../workspace-scope.ts';
import { createDraft, notInBackup, previousName, type Restore, removeDatabase } from './restore.ts';

/** Numbers of rows of one workspace. */
export interface WorkspaceRows {
  readonly name: string;
  readonly deliveries: number;
  readonly items: number;
  readonly tasks: number;
  /** Gateway tokens that are not revoked. */
  readonly tokens: number;
}

export interface DatabaseRows {
  readonly workspaces: readonly WorkspaceRows[];
  /** Logged-in browsers. */
  readonly sessions: number;
}

/** The effects of a restore. */
export interface RestorePlan {
  readonly backup: DatabaseRows;
  /** Null if there is no database, or if it cannot be read. */
  readonly present: DatabaseRows | null;
  /** Code and message if the present database cannot be read. */
  readonly presentFault: string | null;
  /** The name under which the present database would be kept; null if it would not be replaced. */
  readonly kept: string | null;
}

/**
 * Checks a backup as a restore does, and counts the rows of the backup and of the present database. Both are read from copies, so
 * nothing is changed. Throws what the restore would throw.
 */
export async function planRestore(restore: Restore, workspace?: string): Promise<RestorePlan> {
  const { file, backup: path } = restore;
  // Another file than the draft of a restore, which may run at the same time.
  const draft = await createDraft(restore, `${file}.trial`);
  try {
    const backup = await rowsIn(draft);
    if (workspace !== undefined && !backup.workspaces.some(({ name }) => name === workspace))
      throw notInBackup(path, workspace);
    const exists = existsSync(file);
    const { rows: present = null, fault: presentFault = null } = exists ? await readPresent(file) : {};
    return { backup, present, presentFault, kept: exists && workspace === undefined ? previousName(file) : null };
  } finally {
    removeDatabase(draft);
  }
}

/** Returns a fault instead of throwing, because a damaged database is a reason to restore. */
async function readPresent(file: string): Promise<{ rows?: DatabaseRows; fault?: string }> {
  const copy = `${file}.planning`;
  removeDatabase(copy);
  try {
    await copyDatabase(file, copy);
    return { rows: await rowsIn(copy) };
  } catch (error) {
    const { code, message } = asSyncError(error);
    return { fault: `${code}: ${message}` };
  } finally {
    removeDatabase(copy);
  }
}

async function rowsIn(file: string): Promise<DatabaseRows> {
  const { query, close } = await openTables({ file });
  try {
    const workspaces = await query
      .selectFrom('workspaces')
      .select('name')
      .select(({ selectFrom, fn }) => {
        const count = fn.countAll<number>();
        return [
          selectFrom('inbox').select(count.as('n')).whereRef('workspace', '=', 'workspaces.id').as('deliveries'),
          selectFrom('items').select(count.as('n')).whereRef('workspace', '=', 'workspaces.id').as('items'),
          selectFrom('tasks').select(count.as('n')).whereRef('workspace', '=', 'workspaces.id').as('tasks'),
          selectFrom('gateway_tokens')
            .select(count.as('n'))
            .whereRef('workspace', '=', 'workspaces.id')
            .where('revoked_at', 'is', null)
            .as('tokens'),
        ];
      })
      .$narrowType<{ deliveries: NotNull; items: NotNull; tasks: NotNull; tokens: NotNull }>()
      .orderBy('name')
      .execute();
    return { workspaces, sessions: await countRows(query.selectFrom('sessions')) };
  } finally {
    await close();
  }
}
