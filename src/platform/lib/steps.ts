/**
 * Receives the steps of a running process: the moments before and after each durable commit and each HTTP request. In production
 * they are ignored. A crash test counts them and ends the process at step n, for every n.
 */
type StepKind = 'commit' | 'request';
type StepEdge = 'before' | 'after';

export interface Steps {
  reached(kind: StepKind, edge: StepEdge): void;
}

export const noSteps: Steps = { reached() {} };
