import { existsSync } from 'node:fs';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import { copyDatabase } from '../platform/database/sqlite.ts';
import { openTables } from './installation.ts';
import { draftOf, nextKeptName, type Restore, removeDatabase } from './restore.ts';

/** Rows of one workspace. */
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
  /** Browsers that are logged in. */
  readonly sessions: number;
}

/** The effects of a restore. */
export interface RestorePlan {
  readonly backup: DatabaseRows;
  /** Null where there is no database. */
  readonly present: DatabaseRows | null;
  /** Code and message where the present database cannot be read. */
  readonly presentFault: string | null;
  /** The name under which the present database would be kept; null where it would not be replaced. */
  readonly kept: string | null;
}

/**
 * Checks a backup as a restore does, and compares it with the present database. Both are read from copies, so nothing is changed.
 * Throws what the restore would throw.
 */
export async function planRestore(restore: Restore, workspace?: string): Promise<RestorePlan> {
  const { file, backup: path } = restore;
  const draft = await draftOf(restore);
  try {
    const backup = await rowsIn(draft);
    if (workspace !== undefined && !backup.workspaces.some(({ name }) => name === workspace))
      throw new SyncError('not_found', `${path} contains no workspace "${workspace}"`);
    const isThere = existsSync(file);
    const { rows: present = null, fault: presentFault = null } = isThere ? await readPresent(file) : {};
    return { backup, present, presentFault, kept: isThere && workspace === undefined ? nextKeptName(file) : null };
  } finally {
    removeDatabase(draft);
  }
}

/** A damaged database is a reason to restore, so it ends no plan. */
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
      .orderBy('name')
      .execute();
    const { count: sessions } = await query
      .selectFrom('sessions')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    return { workspaces: workspaces.map(withoutNulls), sessions };
  } finally {
    await close();
  }
}

type Counted = { readonly [Column in keyof WorkspaceRows]: WorkspaceRows[Column] | null };

function withoutNulls({ name, deliveries, items, tasks, tokens }: Counted): WorkspaceRows {
  return {
    name: name ?? '',
    deliveries: deliveries ?? 0,
    items: items ?? 0,
    tasks: tasks ?? 0,
    tokens: tokens ?? 0,
  };
}
