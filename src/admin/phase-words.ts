import type { Phase } from './timelines.ts';

/** Names of the phases on pages and in the output of commands. */
export const PHASE_WORDS: Readonly<Record<Phase['name'], string>> = {
  decision: 'read and decided',
  due: 'wait for further events',
  slot: 'wait for the quota',
  request: 'request',
};
