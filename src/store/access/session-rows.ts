import type { Access } from '../../model/caller.ts';
import { changedRows, type Sql } from '../workspace-scope.ts';

/** A logged-in browser. */
export interface Session extends Access {
  readonly digest: string;
  /** SHA-256 of the configured token that opened the session; null if a link opened it. */
  readonly openedBy: string | null;
  readonly createdAt: number;
  readonly seenAt: number;
}

/** Stores a link by the digest of its secret. */
export async function addLoginLink(
  query: Sql,
  link: Access & { readonly digest: string; readonly expiresAt: number },
): Promise<void> {
  const row = { digest: link.digest, ...columnsOf(link), expires_at: link.expiresAt };
  await query.insertInto('login_links').values(row).execute();
}

/** Removes the link, so that it works only once, and returns its access; undefined if there is none or it has expired. */
export async function consumeLoginLink(query: Sql, digest: string, now: number): Promise<Access | undefined> {
  const row = await query.deleteFrom('login_links').where('digest', '=', digest).returningAll().executeTakeFirst();
  return row === undefined || row.expires_at <= now ? undefined : accessOf(row);
}

export async function addSession(query: Sql, session: Session & { readonly expiresAt: number }): Promise<void> {
  const { digest, openedBy, createdAt, seenAt, expiresAt } = session;
  const times = { created_at: createdAt, seen_at: seenAt, expires_at: expiresAt };
  const row = { digest, ...columnsOf(session), opened_by: openedBy, ...times };
  await query.insertInto('sessions').values(row).execute();
}

/** Returns undefined if there is no such session or it has expired. */
export async function findSession(query: Sql, digest: string, now: number): Promise<Session | undefined> {
  const row = await query
    .selectFrom('sessions')
    .select(['digest', 'role', 'workspaces', 'opened_by as openedBy', 'created_at as createdAt', 'seen_at as seenAt'])
    .where('digest', '=', digest)
    .where('expires_at', '>', now)
    .executeTakeFirst();
  return row && { ...row, ...accessOf(row) };
}

export async function touchSession(
  query: Sql,
  { digest, seenAt, expiresAt }: { readonly digest: string; readonly seenAt: number; readonly expiresAt: number },
): Promise<void> {
  const times = { seen_at: seenAt, expires_at: expiresAt };
  await query.updateTable('sessions').set(times).where('digest', '=', digest).execute();
}

export async function endSession(query: Sql, digest: string): Promise<void> {
  await query.deleteFrom('sessions').where('digest', '=', digest).execute();
}

/** Deletes all sessions and all unused links. @returns the number of sessions */
export async function endAllSessions(query: Sql): Promise<number> {
  await query.deleteFrom('login_links').execute();
  return changedRows(query.deleteFrom('sessions'));
}

export async function purgeExpiredLogins(query: Sql, now: number): Promise<void> {
  await query.deleteFrom('login_links').where('expires_at', '<=', now).execute();
  await query.deleteFrom('sessions').where('expires_at', '<=', now).execute();
}

function columnsOf({ role, workspaces }: Access) {
  return { role, workspaces: workspaces === null ? null : JSON.stringify(workspaces) };
}

function accessOf({ role, workspaces }: { role: Access['role']; workspaces: string | null }): Access {
  return { role, workspaces: workspaces === null ? null : (JSON.parse(workspaces) as string[]) };
}
