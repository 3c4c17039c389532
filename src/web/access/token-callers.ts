import { hash } from 'node:crypto';
import type { Access } from '../../model/caller.ts';
import { createAddressGuard } from '../../platform/http/addresses.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { isSameSecret } from '../../platform/lib/digest.ts';

/** A credential for pages, metrics and admin actions. */
export interface Token extends Access {
  readonly secret: string;
  /** The daemon's own, which the commands of this machine show. */
  readonly isOwn?: true;
}

/** A token that was found, by its digest. */
export interface KnownToken extends Access {
  readonly digest: string;
  readonly isOwn?: true;
}

/** A token this long cannot be guessed. */
const UNGUESSABLE = 32;

/** Wrong tokens that an address may try, and how soon it may try another. */
const PATIENCE = { burst: 20, perSecond: 1 / 10 };

export type Callers = ReturnType<typeof createCallers>;

/**
 * Decides what a bearer may do. A token that cannot be guessed is always checked, so nobody can lock its owner out. Shorter ones are not checked for an
 * address that sent too many wrong ones.
 */
export function createCallers(tokens: readonly Token[], clock: Clock) {
  const known = tokens.map(({ secret, role, workspaces, isOwn }) => ({
    ...{ role, workspaces, digest: digestOf(secret), ...(isOwn && { isOwn }) },
    isGuessable: secret.length < UNGUESSABLE,
  }));
  const guard = createAddressGuard(clock, PATIENCE);
  const find = (secret: string, isGuessable: boolean): KnownToken | undefined => {
    const digest = digestOf(secret);
    const among = known.filter((token) => token.isGuessable === isGuessable);
    // Compares all, so that the time does not reveal which one matched.
    return among.filter((token) => isSameSecret(digest, token.digest))[0];
  };
  return {
    /** `wrong`: there is no such token. `limited`: this address sent too many wrong ones, so it was not checked. */
    bearer(secret: string, address: string): KnownToken | 'wrong' | 'limited' {
      const sure = find(secret, false);
      if (sure) return sure;
      if (!guard.admits(address)) return 'limited';
      const found = find(secret, true);
      if (found) return found;
      guard.failed(address);
      return 'wrong';
    },
    /** By SHA-256, in hex: a token that has been found before, where it is still one. */
    withDigest: (digest: string): KnownToken | undefined => known.find((token) => token.digest === digest),
  };
}

function digestOf(secret: string): string {
  return hash('sha256', secret);
}
