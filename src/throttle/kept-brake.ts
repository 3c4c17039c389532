import type { Clock } from '../lib/clock.ts';
import { readMeta, writeMeta } from '../store/meta.ts';
import type { Scope } from '../store/workspace-scope.ts';
import { type Brake, OPEN, restored, type SavedBrake } from './brake.ts';

/** Name of the fact that holds the brake. */
export const BRAKE = 'throttle.brake';

/**
 * The kept brake. One of another boot is written back in times of this one: it is re-dated once only. Where none was kept,
 * or by a version that did not note since when no other use was detected, it counts from now.
 */
export async function readBrake(query: Scope, clock: Clock): Promise<Brake> {
  const text = await readMeta(query, BRAKE);
  const first = { ...OPEN, quietSince: clock.monotonic() };
  if (text === undefined) {
    await writeBrake(query, clock, first);
    return first;
  }
  const saved = dated(JSON.parse(text) as SavedBrake);
  const brake = restored(saved, clock.bootId, clock.monotonic(), clock.now());
  if (brake !== saved.brake) await writeBrake(query, clock, brake);
  return brake;
}

export async function writeBrake(query: Scope, clock: Clock, brake: Brake): Promise<void> {
  const saved: SavedBrake = { boot: clock.bootId, at: clock.monotonic(), wall: clock.now(), brake };
  await writeMeta(query, BRAKE, JSON.stringify(saved));
}

function dated(saved: SavedBrake): SavedBrake {
  const { observed, quietSince = observed?.at ?? saved.at } = saved.brake as Partial<Brake>;
  return { ...saved, brake: { ...saved.brake, quietSince } };
}
