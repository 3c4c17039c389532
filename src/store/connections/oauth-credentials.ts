import type { Sql } from '../workspace-scope.ts';

/**
 * The present state of an OAuth 2.0 grant: the refresh token to use next, the previous one until the present one was used, and the
 * access token. All tokens are sealed; times are epoch milliseconds.
 */
export type StoredCredential = NonNullable<Awaited<ReturnType<typeof loadCredential>>>;

/** Milliseconds. Vendors revoke a grant that was not used for a year. */
const EXPIRES_AFTER = 400 * 24 * 60 * 60_000;

export async function loadCredential(query: Sql, id: string) {
  return query
    .selectFrom('oauth_credentials')
    .select(['refresh', 'previous', 'access', 'access_expires_at as accessExpiresAt', 'renewed_at as renewedAt'])
    .where('id', '=', id)
    .executeTakeFirst();
}

/** Saves a grant, and deletes all grants that were not renewed for so long that their vendors have revoked them. */
export async function saveCredential(query: Sql, id: string, credential: StoredCredential): Promise<void> {
  const { accessExpiresAt, renewedAt, ...rest } = credential;
  const row = { ...rest, access_expires_at: accessExpiresAt, renewed_at: renewedAt };
  const saved = query.insertInto('oauth_credentials').values({ id, ...row });
  await saved.onConflict((conflict) => conflict.column('id').doUpdateSet(row)).execute();
  const expired = query.deleteFrom('oauth_credentials').where('renewed_at', '<', renewedAt - EXPIRES_AFTER);
  await expired.execute();
}

/** Name of the fact that stores until when a process may renew a grant, epoch milliseconds. */
const claimOf = (id: string) => `renewal.${id}`;

/**
 * Claims the renewal of a grant for this process, until `releaseRenewal` or the time `until`, so that only one process renews it.
 *
 * @returns false if another process has a claim
 */
export async function claimRenewal(query: Sql, id: string, now: number, until: number): Promise<boolean> {
  const value = String(until);
  const claimed = await query
    .insertInto('installation')
    .values({ name: claimOf(id), value })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet({ value })
        .where(({ eb, cast }) => eb(cast<number>('installation.value', 'bigint'), '<', now)),
    )
    .returning('name')
    .executeTakeFirst();
  return claimed !== undefined;
}

export async function releaseRenewal(query: Sql, id: string): Promise<void> {
  await query.deleteFrom('installation').where('name', '=', claimOf(id)).execute();
}
