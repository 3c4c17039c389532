import type { Clock } from '../../platform/lib/clock.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { type Cooldown, OPEN, restored, type SavedCooldown } from './cooldown.ts';

/** Name of the fact that holds the cooldown. */
export const BRAKE = 'throttle.brake';

/**
 * The kept cooldown. One of another boot is written back in times of this one: it is re-dated once only. Where none was kept,
 * or by a version that did not note since when no other use was detected, it counts from now.
 */
export async function readCooldown(query: Scope, clock: Clock): Promise<Cooldown> {
  const text = await readMeta(query, BRAKE);
  const first = { ...OPEN, quietSince: clock.monotonic() };
  if (text === undefined) {
    await writeCooldown(query, clock, first);
    return first;
  }
  const saved = dated(JSON.parse(text) as SavedCooldown);
  const cooldown = restored(saved, clock.bootId, clock.monotonic(), clock.now());
  if (cooldown !== saved.cooldown) await writeCooldown(query, clock, cooldown);
  return cooldown;
}

export async function writeCooldown(query: Scope, clock: Clock, cooldown: Cooldown): Promise<void> {
  const saved: SavedCooldown = { boot: clock.bootId, at: clock.monotonic(), wall: clock.now(), cooldown };
  await writeMeta(query, BRAKE, JSON.stringify(saved));
}

function dated(saved: SavedCooldown): SavedCooldown {
  const { observed, quietSince = observed?.at ?? saved.at } = saved.cooldown as Partial<Cooldown>;
  return { ...saved, cooldown: { ...saved.cooldown, quietSince } };
}
