import type { MemberAccess } from '../../connectors/connector.ts';
import { SealError, type SecretBox } from '../../platform/lib/secret-box.ts';
import type { Service } from '../http/call.ts';
import { timeNow } from '../storage/rows.ts';
import type { Write } from '../storage/transactions.ts';
import type { Mint } from './credentials.ts';

/** A member's token at a git provider, in plain text. */
export interface NewProviderToken {
  readonly workspaceId: string;
  readonly userId: string;
  readonly provider: string;
  readonly host: string;
  /** Absent: derived from the host. */
  readonly apiUrl?: string;
  readonly token: string;
}

/** The place that a sealed token is bound to, so that no other user's row opens it. */
function placeOf(workspaceId: string, userId: string, provider: string): string {
  return `provider_token:${workspaceId}:${userId}:${provider}`;
}

/** Stores the token encrypted; replaces an existing one. */
export async function storeProviderToken(
  write: Write,
  { clock, secrets }: Pick<Mint, 'clock'> & { readonly secrets: SecretBox },
  given: NewProviderToken,
): Promise<void> {
  const { workspaceId, userId, provider } = given;
  const columns = {
    host: given.host,
    api_url: given.apiUrl ?? null,
    sealed_token: secrets.seal(given.token, placeOf(workspaceId, userId, provider)),
    connected_at: timeNow(clock),
  };
  await write
    .insertInto('provider_tokens')
    .values({ workspace_id: workspaceId, user_id: userId, provider, ...columns })
    .onConflict((conflict) => conflict.columns(['workspace_id', 'user_id', 'provider']).doUpdateSet(columns))
    .execute();
}

/** Read for each use, so that a change by another process applies at once. Returns undefined if the member has none. */
export async function findMemberAccess(
  service: Service,
  workspaceId: string,
  userId: string,
  provider: string,
): Promise<MemberAccess | undefined> {
  const row = await service.database.query
    .selectFrom('provider_tokens')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('user_id', '=', userId)
    .where('provider', '=', provider)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  try {
    const token = service.secrets.open(row.sealed_token, placeOf(workspaceId, userId, provider));
    return { token, host: row.host, ...(row.api_url === null ? {} : { apiUrl: row.api_url }) };
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    service.logger.error(
      { err: error, userId, provider },
      'a stored provider token cannot be opened: connect it again',
    );
    return undefined;
  }
}
