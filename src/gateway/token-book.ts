import { hash } from 'node:crypto';
import type { Clock } from '../platform/lib/clock.ts';
import type { Random } from '../platform/lib/random.ts';
import {
  addGatewayToken,
  type GatewayToken,
  type LiveToken,
  listGatewayTokens,
  liveTokens,
  revokeGatewayToken,
} from '../store/access/gateway-tokens.ts';
import type { Store } from '../store/database.ts';
import type { Sql } from '../store/workspace-scope.ts';

/** The prefix of gateway tokens, so that no API key is searched among them, and none of them is sent to the workspace. */
export const TOKEN_PREFIX = 'wsg_';

const SECRET_BYTES = 32;
const ID_BYTES = 9;

/** The live tokens of all workspaces, cached. A change is signalled to all processes over the database. */
export interface TokenBook {
  /** The live token that has this secret. */
  find(secret: string): Promise<LiveToken | undefined>;
  /** Returns the token from memory; undefined also if that must be read first. */
  recall(secret: string): LiveToken | undefined;
  /** The live token that has this id. */
  withId(id: string): Promise<LiveToken | undefined>;
  /** Reads the tokens again after a change, also by another process. */
  reread(): Promise<void>;
  /** Reads the tokens again after a change by this process, and notifies the other processes. */
  changed(): Promise<void>;
}

/** @param tellOthers notifies the other processes over the database; absent: there is none */
export function createTokenBook(query: Sql, tellOthers?: () => Promise<void>): TokenBook {
  let live: ReadonlyMap<string, LiveToken> | undefined;
  let begun = 0;
  let newest = 0;
  const recall = (secret: string) => live?.get(digestOf(secret));
  const reread = async () => {
    const mine = ++begun;
    const found = await liveTokens(query);
    // A read that began before a revocation may end after the read that shows it.
    if (mine < newest) return;
    newest = mine;
    live = found;
  };
  return {
    async find(secret) {
      if (!live) await reread();
      return recall(secret);
    },
    recall,
    async withId(id) {
      if (!live) await reread();
      return live?.values().find((token) => token.id === id);
    },
    reread,
    async changed() {
      await reread();
      await tellOthers?.();
    },
  };
}

/** The gateway tokens of one workspace. */
export interface Tokens {
  /** The secret is in the answer and nowhere else. */
  create(description: string): Promise<{ id: string; secret: string }>;
  /** Lists live and revoked tokens, oldest first. */
  list(): Promise<GatewayToken[]>;
  /** Revokes a token at once. Returns false if there is no such live token. */
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
      await book.changed();
      return { id, secret };
    },
    list: () => listGatewayTokens(store.query),
    async revoke(id) {
      const isRevoked = await revokeGatewayToken(store.query, id, clock.now());
      await book.changed();
      return isRevoked;
    },
  };
}

function digestOf(secret: string): string {
  return hash('sha256', secret);
}
