import { isFinalStatus, namedStatus, serverStatus, statusNames, type TaskStatuses } from '../../model/task-status.ts';
import { HEADER_PREFIX, type RouteName } from '../../workspace-api/contract.ts';
import { invalid } from './api-error.ts';

/** How the service answers where the specification leaves the choice to it. */
export interface Variant {
  /**
   * Behaves as the specification reads literally: `POST …/pull-requests` always opens, our extensions are missing,
   * tasks have no `key`, and nothing is idempotent. Webhooks have the public form (W75).
   */
  readonly isLiteral: boolean;
  /** The start of the service's own header names, for example `X-Service-`. */
  readonly headerPrefix: string;
  /** The statuses of tasks. Absent: those of the specification. */
  readonly statuses?: TaskStatuses;
}

export const OWN_VARIANT: Variant = { isLiteral: false, headerPrefix: HEADER_PREFIX };

const EXTENSIONS: readonly RouteName[] = ['listPullRequestRecords', 'recordPullRequest'];

/** Routes that a service of this variant does not serve (W74). */
export function missingRoutes({ isLiteral }: Variant): ReadonlySet<RouteName> {
  return new Set(isLiteral ? EXTENSIONS : []);
}

/** A task or an event's resource as this variant shows it. */
export function withoutKey<Value extends object>({ isLiteral }: Variant, value: Value): Value {
  if (!isLiteral) return value;
  const { key: _key, ...rest } = value as Value & { key?: unknown };
  return rest as Value;
}

/** Throws 400 for a status of a task that this variant does not have. */
export function requireStatus({ statuses = {} }: Variant, status: string): void {
  const words = statusNames(statuses).map((name) => serverStatus(statuses, name));
  if (!words.includes(status)) throw invalid(`status: expected one of ${words.join(', ')}`);
}

/** Whether tasks with this status are finished. */
export function isFinished({ statuses = {} }: Variant, status: string): boolean {
  return isFinalStatus(statuses, namedStatus(statuses, status));
}
