import type { Status } from '../../src/admin/status.ts';
import type { Event } from './history.ts';
import { WORKSPACE } from './hosts.ts';

const LONG = 15 * 60_000;

interface Told {
  /** Of the process. */
  readonly name: string;
  /** Of several processes one tells of the workspace. Over this network they cannot ask each other. */
  readonly isAlone: boolean;
  /** Whether a delivery may be there that nobody can read: an older backup was put back. */
  readonly isBroken: boolean;
  /** Whether no clock was ever set: then the requests of a window can be counted. */
  readonly isClockTrue: boolean;
}

/** What a process tells of itself wrongly, once all is settled and nothing is disturbed any more. */
export function statusWrong(
  { ready, workspaces, broken, shared }: Status,
  events: readonly Event[],
  { name, isAlone, isBroken, isClockTrue }: Told,
): string[] {
  const causes = [...workspaces, ...(shared ? [shared] : [])].flatMap((each) => each.causes);
  // A write that a vendor refused stays refused until a start.
  const right = ['replica_silent', 'writes_refused', ...(isBroken ? ['deliveries_quarantined'] : [])];
  const wrong = causes.filter(({ code }) => !right.includes(code)).map(({ code, message }) => `${code}: ${message}`);
  if (!ready || broken.length > 0 || workspaces.some(({ state }) => state.kind !== 'running')) wrong.push('it waits');
  const own = workspaces.find((each) => each.name === 'test');
  if (isAlone && !own) wrong.push('it does not tell of the workspace');
  return [
    ...wrong.map((text) => `status: nothing is wrong, and ${name} tells: ${text}`),
    ...(own && isClockTrue ? usedWrong(own.quota.long.used, events, name) : []),
  ];
}

/** It counts each request of its own at least. */
function usedWrong(used: number, events: readonly Event[], name: string): string[] {
  const since = (events.at(-1)?.at ?? 0) - LONG;
  const came = events.filter(
    (event) =>
      event.what === 'arrived' && event.server === WORKSPACE && event.from.startsWith('process-') && event.at > since,
  );
  return used >= came.length
    ? []
    : [`status: ${name} says that ${used} requests count, and ${came.length} came within the window`];
}
