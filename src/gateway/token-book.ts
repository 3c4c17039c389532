import { hash } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import type { Store } from '../store/database.ts';
import {
  addGatewayToken,
  type GatewayToken,
  listGatewayTokens,
  liveTokens,
  revokeGatewayToken,
} from '../store/gateway-tokens.ts';
import type { Sql } from '../store/workspace-scope.ts';

/** Secrets of gateway tokens begin so: then no API key is ever looked up as one, and none is sent to the workspace. */
export const TOKEN_PREFIX = 'wsg_';

const SECRET_BYTES = 32;
const ID_BYTES = 9;

/** The live tokens of all workspaces. The process that owns the database is its only writer, so they are cached. */
export interface TokenBook {
  /** The name of the workspace whose live token this secret is. */
  workspaceOf(secret: string): Promise<string | undefined>;
  /** The same from memory; undefined also where that must be read first. */
  recall(secret: string): string | undefined;
  /** A token was made or revoked. Resolves when everybody knows. */
  reread(): Promise<void>;
}

export function createTokenBook(query: Sql): TokenBook {
  let live: ReadonlyMap<string, string> | undefined;
  const recall = (secret: string) => live?.get(digestOf(secret));
  const reread = async () => {
    live = await liveTokens(query);
  };
  return {
    async workspaceOf(secret) {
      if (!live) await reread();
      return recall(secret);
    },
    recall,
    reread,
  };
}

/** The gateway tokens of one workspace. */
export interface Tokens {
  /** The secret is in the answer and nowhere else. */
  create(description: string): Promise<{ id: string; secret: string }>;
  /** Revoked ones too, oldest first. */
  list(): Promise<GatewayToken[]>;
  /** At once. False where there is no such live token. */
  revoke(id: string): Promise<boolean>;
}

export interface TokensOptions {
  readonly store: Store;
  readonly book: TokenBook;
  readonly clock: Clock;
  readonly random: Random;
}

export function createTokens({ store, book, clock, random }: TokensOptions): Tokens {
  return {
    async create(description) {
      const secret = TOKEN_PREFIX + random.bytes(SECRET_BYTES).toString('base64url');
      const id = `gwt_${random.bytes(ID_BYTES).toString('hex')}`;
      await addGatewayToken(store.query, { id, digest: digestOf(secret), description, now: clock.now() });
      await book.reread();
      return { id, secret };
    },
    list: () => listGatewayTokens(store.query),
    async revoke(id) {
      const isRevoked = await revokeGatewayToken(store.query, id, clock.now());
      await book.reread();
      return isRevoked;
    },
  };
}

function digestOf(secret: string): string {
  return hash('sha256', secret);
}
