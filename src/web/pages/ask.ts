import { type AdminOperation, type Answered, type Asked, runAdminOperation } from '../../admin/admin-operations.ts';
import type { Actor } from '../../admin/audit.ts';
import type { OpenWorkspace } from '../../admin/open-workspace.ts';
import type { Clock } from '../../platform/lib/clock.ts';

interface Asker {
  readonly partition: OpenWorkspace;
  readonly clock: Clock;
  /** The author of a change. */
  readonly actor?: Actor;
}

/** Runs an admin operation for a page, so that pages and commands show the same. */
export function ask<Name extends AdminOperation>(
  { partition, clock, actor }: Asker,
  name: Name,
  asked: Asked<Name>,
): Promise<Answered<Name>> {
  return runAdminOperation(name, partition, asked, clock, actor) as Promise<Answered<Name>>;
}
