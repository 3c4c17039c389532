/** The task that a path outside any workspace begins with. */
export function taskOf(path: string): string | undefined {
  return /^\/tasks\/([^/]+)\//.exec(path)?.[1];
}

/** The workspace that a path names; undefined where it names none, as `/tasks/…` does. */
export function workspaceOf(path: string): string | undefined {
  return /^\/workspaces\/([^/]+)(?:\/|$)/.exec(path)?.[1];
}
