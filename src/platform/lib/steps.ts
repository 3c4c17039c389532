/**
 * The numbered steps of a running process: every durable commit and every HTTP request, before and after.
 * The commit wrapper (`sqlite.ts`) and the HTTP wrapper (`platform/http/http-client.ts`) report them; nobody numbers by hand.
 * In production nothing listens. A crash test listens and ends the process at step n, for every n.
 */
type StepKind = 'commit' | 'request';
type StepEdge = 'before' | 'after';

export interface Steps {
  reached(kind: StepKind, edge: StepEdge): void;
}

export const noSteps: Steps = { reached() {} };
