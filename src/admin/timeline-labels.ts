import type { Phase } from './timelines.ts';

/** Labels of the phases on pages and in the output of commands. */
export const TIMELINE_PHASE_LABELS: Readonly<Record<Phase['name'], string>> = {
  decision: 'read and decided',
  due: 'wait for further events',
  slot: 'wait for the quota',
  request: 'request',
};
