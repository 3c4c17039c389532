import type { Happening, Hooks, PullChange } from './plan.ts';
import type { Site } from './site.ts';

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;

/** A pull request that nobody else touches. */
export const NUMBER = 99;
export const PROMPT: Hooks = { delays: [100], again: true };
export const NEVER: Hooks = { delays: [], again: false };

/** Old pull requests: more than a minute's quota takes. */
export const OLD_ONES = 60;

/** No plan names a task of a larger number. */
export const MOST_NAMED = 8;

export type Act = (happening: Happening) => Promise<void>;

export interface Ways {
  /** The most requests to the workspace. */
  phase(name: string, writes: number, reads: number, work: () => Promise<void>): Promise<void>;
  promised(name: string, within: number, isTrue: () => Promise<boolean>): Promise<void>;
  seen(name: string, within: number, number?: number): Promise<void>;
  change(hooks: Hooks, wish: PullChange, number?: number): Promise<void>;
}

/** Until a write has left, and nobody knows what became of it. */
export async function whileOnItsWay({ recorder, settings, pass }: Site): Promise<void> {
  const before = recorder.events.length;
  const hasLeft = () => recorder.events.slice(before).some((event) => event.what === 'sent' && event.method === 'POST');
  for (let second = 0; second < 30 + settings().visibility && !hasLeft(); second++) await pass(SECOND);
}
