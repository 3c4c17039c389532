import { expect } from 'vitest';
import { type PullSetting, pullEvent } from '../vendors/github-payloads.ts';
import type { World } from './daemon.ts';

/** A pull request opens, or changes, at the provider: now, unless told. Everything is settled afterwards, and a minute has passed. */
export async function editPull(world: World, setting: PullSetting, id?: string): Promise<void> {
  const updated = new Date(world.clock.now()).toISOString();
  expect(await world.deliver('pull_request', pullEvent({ updated, ...setting }), { id })).toBe(202);
  await world.settled();
  await world.clock.advance(60_000);
}
