/** A task of the workspace, as far as the daemon caches it. */
export interface Task {
  readonly taskId: string;
  /** Short human key: `BUG-12`. */
  readonly key: string;
  readonly title: string;
  readonly status: string;
  /** How a create is recognised: the item's key, or `api` for tasks that others made. */
  readonly source: string;
  /** RFC 3339, UTC; absent where the workspace does not tell. */
  readonly createdAt?: string;
  /** RFC 3339, UTC. */
  readonly updatedAt: string;
}
