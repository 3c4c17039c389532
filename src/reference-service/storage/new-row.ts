import type { Clock } from '../../platform/lib/clock.ts';
import type { Random } from '../../platform/lib/random.ts';

/** The wall clock as rows hold it. */
export function timeNow(clock: Clock): string {
  return new Date(clock.now()).toISOString();
}

/** `tsk_…`: 96 random bits that may stand in a path. */
export function newId(random: Random, prefix: string): string {
  return `${prefix}_${random.bytes(12).toString('base64url')}`;
}
