import { BRAKE } from './persisted-cooldown.ts';
import { BEAT } from './window-ledger.ts';

/** Marks times of a boot that nobody can compare with those of the present one. */
const COPIED = 'copied:';

/**
 * The name of a boot once its times are in another database: no boot of any machine has it. All that counted in the quota counts
 * in full then, from the moment at which the ledger is read there; what happened earlier in that boot stays as much earlier.
 */
export function rebaseMonotonic(boot: string): string {
  return boot.startsWith(COPIED) ? boot : COPIED + boot;
}

/** The same of a fact that holds times of a boot; others stay as they are. */
export function rebaseFact(name: string, value: string): string {
  if (name !== BEAT && name !== BRAKE) return value;
  const fact = JSON.parse(value) as { readonly boot: string };
  return JSON.stringify({ ...fact, boot: rebaseMonotonic(fact.boot) });
}
