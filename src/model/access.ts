/** `read` sees everything and changes nothing; `admin` may do whatever there is to do. */
export type Role = 'read' | 'admin';

/** What a caller may do, and where. */
export interface Access {
  readonly role: Role;
  /** Names of the workspaces it is limited to; null: all of them. */
  readonly workspaces: readonly string[] | null;
}

/** Whether the caller may know of this workspace. */
export function reaches({ workspaces }: Pick<Access, 'workspaces'>, workspace: string): boolean {
  return workspaces === null || workspaces.includes(workspace);
}
