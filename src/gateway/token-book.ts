import { hash } from 'node:crypto';
import type { Clock, Random } from '../platform/lib/clock.ts';
import {
  addGatewayToken,
  type LiveToken,
  listGatewayTokens,
  liveTokens,
  revokeGatewayToken,
} from '../store/access/gateway-tokens.ts';
import type { Sql, Store } from '../store/workspace-scope.ts';

/** The prefix of gateway tokens, so that no API key is searched among them, and none of them is sent to the workspace. */
export const TOKEN_PREFIX = 'wsg_';

const SECRET_BYTES = 32;
const ID_BYTES = 9;

export type TokenBook = ReturnType<typeof createTokenBook>;

/**
 * The live tokens of all workspaces, cached. A change is signalled to all processes over the database.
 *
 * @param tellOthers notifies the other processes over the database; absent: there is none
 */
export function createTokenBook(query: Sql, tellOthers?: () => Promise<void>) {
  let live: ReadonlyMap<string, LiveToken> | undefined;
  let begun = 0;
  let newest = 0;
  /** Returns the token from memory; undefined also if that must be read first. */
  const recall = (secret: string) => live?.get(digestOf(secret));
  /** Reads the tokens again after a change, also by another process. */
  const reread = async () => {
    const mine = ++begun;
    const found = await liveTokens(query);
    // A read that began before a revocation may end after the read that shows it.
    if (mine < newest) return;
    newest = mine;
    live = found;
  };
  return {
    /** Returns the live token that has this secret. */
    async find(secret: string) {
      if (!live) await reread();
      return recall(secret);
    },
    recall,
    async withId(id: string) {
      if (!live) await reread();
      return live?.values().find((token) => token.id === id);
    },
    reread,
    /** Reads the tokens again after a change by this process, and notifies the other processes. */
    async changed() {
      await reread();
      await tellOthers?.();
    },
  };
}

export type Tokens = ReturnType<typeof createTokens>;

/** The gateway tokens of one workspace. */
export function createTokens(store: Store, book: TokenBook, clock: Clock, random: Random) {
  return {
    /** The secret is in the answer and nowhere else. */
    async create(description: string) {
      const secret = TOKEN_PREFIX + random.bytes(SECRET_BYTES).toString('base64url');
      const id = `gwt_${random.bytes(ID_BYTES).toString('hex')}`;
      await addGatewayToken(store.query, { id, digest: digestOf(secret), description, now: clock.now() });
      await book.changed();
      return { id, secret };
    },
    /** Lists live and revoked tokens, oldest first. */
    list: () => listGatewayTokens(store.query),
    /** Revokes a token at once. Returns false if there is no such live token. */
    async revoke(id: string) {
      const isRevoked = await revokeGatewayToken(store.query, id, clock.now());
      await book.changed();
      return isRevoked;
    },
  };
}

function digestOf(secret: string): string {
  return hash('sha256', secret);
}
