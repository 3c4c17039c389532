import { describe, expect, it } from 'vitest';
import {
  CLAIM_EVENTS,
  isFinal,
  isHeld,
  type SessionState,
  TRANSITIONS,
} from '../../../../src/reference-service/agents/agent-session-states.ts';
import { SESSION_STATES } from '../../../../src/workspace-api/contract.ts';

/** W63, written down once more: state, and where it may go. */
const ALLOWED: Readonly<Record<SessionState, readonly string[]>> = {
  queued: ['pending', 'active', 'cancelled'],
  pending: ['queued', 'active', 'cancelled'],
  active: ['awaiting_input', 'complete', 'error', 'stale', 'cancelled'],
  awaiting_input: ['active'],
  stale: ['queued'],
  complete: [],
  error: [],
  cancelled: [],
};

describe.each(SESSION_STATES)('from %s', (from) => {
  it.each(SESSION_STATES)('to %s', (to) => {
    expect(TRANSITIONS[from].includes(to)).toBe(ALLOWED[from].includes(to));
  });
});

/** Every state that can be reached by one or more transitions. */
function reachable(from: SessionState): Set<SessionState> {
  const found = new Set<SessionState>();
  const visit = (state: SessionState) => {
    for (const next of TRANSITIONS[state]) {
      if (found.has(next)) continue;
      found.add(next);
      visit(next);
    }
  };
  visit(from);
  return found;
}

it('W63 events of a claim lead only along transitions', () => {
  for (const [event, ways] of Object.entries(CLAIM_EVENTS))
    for (const [from, to] of Object.entries(ways))
      expect(reachable(from as SessionState), `${event} from ${from}`).toContain(to);
});

it('a claim is held where it may be worked on, and ended by each event but its making', () => {
  for (const to of Object.values(CLAIM_EVENTS.claim)) expect(isHeld(to)).toBe(true);
  for (const event of ['complete', 'fail', 'release', 'expire'] as const)
    for (const [from, to] of Object.entries(CLAIM_EVENTS[event]))
      expect([isHeld(from as SessionState), isHeld(to)]).toEqual([true, false]);
});

it('is final in complete, error and cancelled', () => {
  expect(SESSION_STATES.filter(isFinal)).toEqual(['complete', 'error', 'cancelled']);
});
