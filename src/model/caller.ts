/** `read` sees everything and changes nothing; `admin` may do everything. */
export type Role = 'read' | 'admin';

/** The rights of a caller of the daemon. */
export interface Access {
  readonly role: Role;
  /** Names of the workspaces that the caller is limited to; null: all workspaces. */
  readonly workspaces: readonly string[] | null;
}

/** Whether the caller may know of this workspace. */
export function canAccess({ workspaces }: Pick<Access, 'workspaces'>, workspace: string): boolean {
  return workspaces === null || workspaces.includes(workspace);
}

/**
 * The callers for which requests of the quota are counted, as stored:
 *
 *   a lane        work of the daemon itself, by lane
 *   command       a command of worksync
 *   token:<id>    a gateway token
 *   key:<hash>    a credential that a caller brings to the gateway, by the first 12 hexadecimal digits of its SHA-256
 *   wrong keys    credentials that the workspace did not accept
 *   other keys    gateway tokens and credentials beyond the number that is counted separately
 *   others        requests that do not pass through worksync, estimated from refusals
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

/** Parses a stored caller. `id` distinguishes callers of one kind. */
export function readCaller(caller: string): { readonly kind: CallerKind; readonly id: string } {
  const [, kind, id] = /^(token|key):(.*)$/.exec(caller) ?? [];
  if (kind !== undefined && id !== undefined) return { kind: kind as 'token' | 'key', id };
  if (caller === CALLERS.command || caller === CALLERS.others) return { kind: caller, id: caller };
  if (caller === CALLERS.wrongKeys || caller === CALLERS.otherKeys) return { kind: 'other keys', id: caller };
  return { kind: 'daemon', id: caller };
}
