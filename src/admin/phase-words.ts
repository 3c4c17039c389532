import type { Phase } from './timelines.ts';

/** The phases for people, on pages and in the output of commands. */
export const PHASE_WORDS: Readonly<Record<Phase['name'], string>> = {
  decision: 'read and decided',
  due: 'wait for further events',
  slot: 'wait for the quota',
  request: 'request',
};
