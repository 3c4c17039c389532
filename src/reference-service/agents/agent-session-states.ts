import type { SESSION_STATES } from '../../workspace-api/contract.ts';

/** States of an agent's session (W63). */
export type SessionState = (typeof SESSION_STATES)[number];

/** The allowed transitions of a session (W63). A state without an entry is final. */
export const TRANSITIONS: Readonly<Record<SessionState, readonly SessionState[]>> = {
  queued: ['pending', 'active', 'cancelled'],
  pending: ['queued', 'active', 'cancelled'],
  active: ['awaiting_input', 'complete', 'error', 'stale', 'cancelled'],
  awaiting_input: ['active'],
  stale: ['queued'],
  complete: [],
  error: [],
  cancelled: [],
};

/** An event of a session through its claim. */
export type ClaimEvent = 'claim' | 'complete' | 'fail' | 'release' | 'expire';

/**
 * The new state after each event; absent: the state does not allow it. Each event is a path of one or more transitions of the
 * table above: a lease that ends while input is awaited passes through active to stale, and a released session passes through
 * stale on its way back into the queue.
 */
export const CLAIM_EVENTS: Readonly<Record<ClaimEvent, Readonly<Partial<Record<SessionState, SessionState>>>>> = {
  claim: { queued: 'active', pending: 'active' },
  complete: { active: 'complete' },
  fail: { active: 'error' },
  release: { active: 'queued', awaiting_input: 'queued' },
  expire: { active: 'stale', awaiting_input: 'stale' },
};

/** Whether a lease runs in this state: it has a claim, if one was made. */
export function isHeld(state: SessionState): boolean {
  return state === 'active' || state === 'awaiting_input';
}

export function isFinal(state: SessionState): boolean {
  return TRANSITIONS[state].length === 0;
}
