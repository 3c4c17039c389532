/**
 * Who a request of the quota is counted for, as it is stored:
 *
 *   a lane        the daemon's own work, by its lane
 *   command       a command of worksync
 *   token:<id>    a gateway token
 *   key:<hash>    a credential of its own at the gateway, by the first 12 hexadecimal digits of its SHA-256
 *   wrong keys    credentials that the workspace did not know
 *   other keys    gateway tokens and credentials beyond the most that are counted apart
 *   others        what does not go through worksync, as refusals show it: an estimate
 */
export const CALLERS = {
  command: 'command',
  wrongKeys: 'wrong keys',
  otherKeys: 'other keys',
  others: 'others',
} as const;

export type CallerKind = 'daemon' | 'command' | 'token' | 'key' | 'other keys' | 'others';

export function tokenCaller(id: string): string {
  return `token:${id}`;
}

export function keyCaller(hash: string): string {
  return `key:${hash.slice(0, 12)}`;
}

/** The kind of a caller, and what tells it from others of its kind. */
export function readCaller(caller: string): { readonly kind: CallerKind; readonly id: string } {
  const [, kind, id] = /^(token|key):(.*)$/.exec(caller) ?? [];
  if (kind !== undefined && id !== undefined) return { kind: kind as 'token' | 'key', id };
  if (caller === CALLERS.command || caller === CALLERS.others) return { kind: caller, id: caller };
  if (caller === CALLERS.wrongKeys || caller === CALLERS.otherKeys) return { kind: 'other keys', id: caller };
  return { kind: 'daemon', id: caller };
}
