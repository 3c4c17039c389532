import type { Sql } from './workspace-scope.ts';

/** A grant of OAuth 2.0 as it stands now. All tokens are sealed; times are epoch milliseconds. */
export interface StoredCredential {
  /** The refresh token to use next. */
  readonly refresh: string;
  /** The one before it, until this one was used. */
  readonly previous: string | null;
  readonly access: string;
  readonly accessExpiresAt: number;
  readonly renewedAt: number;
}

/** Vendors forget a grant that was not used for a year. */
const FORGOTTEN_AFTER = 400 * 24 * 60 * 60_000;

export async function loadCredential(query: Sql, id: string): Promise<StoredCredential | undefined> {
  return query
    .selectFrom('oauth_credentials')
    .select(['refresh', 'previous', 'access', 'access_expires_at as accessExpiresAt', 'renewed_at as renewedAt'])
    .where('id', '=', id)
    .executeTakeFirst();
}

/** Those that nobody has used for longer than a vendor keeps them go away. */
export async function saveCredential(query: Sql, id: string, held: StoredCredential): Promise<void> {
  const { accessExpiresAt, renewedAt, ...rest } = held;
  const row = { ...rest, access_expires_at: accessExpiresAt, renewed_at: renewedAt };
  await query
    .insertInto('oauth_credentials')
    .values({ id, ...row })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
    .execute();
  await query
    .deleteFrom('oauth_credentials')
    .where('renewed_at', '<', renewedAt - FORGOTTEN_AFTER)
    .execute();
}

/** Name of the fact that says until when somebody renews a grant, epoch milliseconds. */
const claimOf = (id: string) => `renewal.${id}`;

/** Of several processes one may renew a grant: until it gives the claim back, or dies. @returns whether this one may */
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
