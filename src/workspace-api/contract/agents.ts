import { z } from 'zod';
import { answered, asked, ID_PATTERN, listOf, openEnum, type Route, sent } from './route.ts';

/** States of a session (W63). */
export const SESSION_STATES = [
  'queued',
  'pending',
  'active',
  'awaiting_input',
  'complete',
  'error',
  'stale',
  'cancelled',
] as const;

const CLAIM_STATES = ['active', 'completed', 'failed', 'released', 'expired'] as const;
const ACTIVITY_TYPES = ['progress', 'plan', 'url', 'completion', 'failure', 'policy'] as const;

/** The profile of an agent; it belongs to the member who made it. */
const agent = z
  .looseObject({
    agentId: answered.id,
    workspaceId: answered.string,
    userId: answered.string,
    name: answered.string,
    description: answered.text,
    createdAt: answered.time,
    updatedAt: answered.time,
  })
  .meta({ id: 'Agent' });

/** A program that runs an agent. */
const harness = z
  .looseObject({
    harnessId: answered.id,
    agentId: answered.string,
    workspaceId: answered.string,
    name: answered.string,
    version: answered.text,
    createdAt: answered.time,
    lastHeartbeatAt: answered.time,
  })
  .meta({ id: 'Harness' });

const claim = z
  .looseObject({
    claimId: answered.id,
    sessionId: answered.string,
    harnessId: answered.string,
    workspaceId: answered.string,
    state: openEnum(CLAIM_STATES),
    expiresAt: answered.time.meta({ description: 'end of the lease; a heartbeat of the harness renews it' }),
    createdAt: answered.time,
    endedAt: answered.time,
  })
  .meta({ id: 'Claim' });

/** `claim` is the live one, else null. */
const session = z
  .looseObject({
    sessionId: answered.id,
    agentId: answered.string,
    workspaceId: answered.string,
    taskId: answered.text,
    title: answered.string,
    state: openEnum(SESSION_STATES),
    error: answered.text,
    claim: claim.nullable().catch(null),
    createdByUserId: answered.text,
    createdAt: answered.time,
    updatedAt: answered.time,
    endedAt: answered.time,
  })
  .meta({ id: 'Session' });

const activity = z
  .looseObject({
    activityId: answered.id,
    sessionId: answered.string,
    workspaceId: answered.string,
    type: openEnum(ACTIVITY_TYPES),
    content: answered.text,
    url: answered.text,
    userId: answered.text,
    createdAt: answered.time,
  })
  .meta({ id: 'Activity' });

const profile = z.object({ name: sent.title, description: sent.text.optional() }).meta({ id: 'AgentProfile' });

/** An activity of type `url` has a `url`, any other a `content`. */
const newActivity = z
  .object({
    type: z.enum(ACTIVITY_TYPES),
    content: sent.text.optional(),
    url: sent.url.nullish(),
  })
  .refine(({ type, url, content }) => (type === 'url' ? url : content), {
    message: 'an activity of type url needs a url, any other a content',
  })
  .meta({ id: 'NewActivity' });

const page = { limit: asked.limit.optional(), cursor: asked.cursor.optional() };
const nextCursor = answered.cursor;

/** Only people work with agents: API keys are refused. */
const shared = { rules: 'W62, W63', access: 'user' } as const;

export const agentRoutes = {
  /** W63. `{agents, nextCursor}`, newest first. */
  listAgents: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/agents',
    summary: 'List agents',
    ...shared,
    query: z.object(page),
    response: listOf('agents', agent, ['agentId'], { nextCursor }),
  },
  /** W63. The agent belongs to the caller. */
  createAgent: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/agents',
    summary: 'Create an agent',
    ...shared,
    body: profile,
    response: agent,
  },
  /** W63. Errors: 404. */
  getAgent: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/agents/{agentId}',
    summary: 'Get an agent’s profile',
    ...shared,
    response: agent,
  },
  /** W63. Errors: 403 `forbidden` for another member’s agent, 404. */
  updateAgent: {
    method: 'PUT',
    path: '/workspaces/{workspaceId}/agents/{agentId}',
    summary: 'Replace an agent’s profile',
    ...shared,
    body: profile,
    response: agent,
  },
  /** W63. `{harnesses, nextCursor}`, newest first. */
  listHarnesses: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/agents/{agentId}/harnesses',
    summary: 'List an agent’s harnesses',
    ...shared,
    query: z.object(page),
    response: listOf('harnesses', harness, ['harnessId'], { nextCursor }),
  },
  createHarness: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/agents/{agentId}/harnesses',
    summary: 'Register a harness',
    ...shared,
    body: z.object({ name: sent.title, version: sent.name.nullish() }).meta({ id: 'NewHarness' }),
    response: harness,
  },
  /** W63. Renews the leases of the harness’s claims for 60 s from now; has no body. */
  heartbeat: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/agents/{agentId}/harnesses/{harnessId}/heartbeat',
    summary: 'Send a heartbeat of a harness',
    ...shared,
    response: harness,
    success: [200],
  },
  /** W63. `{sessions, nextCursor}`, newest first; filter `state`, repeatable or a comma list. */
  listSessions: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/agents/{agentId}/sessions',
    summary: 'List an agent’s sessions',
    ...shared,
    query: z.object({ ...page, state: asked.list.pipe(z.array(z.enum(SESSION_STATES))).optional() }),
    response: listOf('sessions', session, ['sessionId'], { nextCursor }),
  },
  /** W63. A new session is `queued`. Errors: 400 for an unknown task. */
  createSession: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/agents/{agentId}/sessions',
    summary: 'Queue a session',
    ...shared,
    body: z.object({ title: sent.title, taskId: z.string().regex(ID_PATTERN).nullish() }).meta({ id: 'NewSession' }),
    response: session,
  },
  /** W63. Errors: 404. */
  getSession: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/sessions/{sessionId}',
    summary: 'Get a session',
    ...shared,
    response: session,
  },
  /**
   * W63. Moves it along the transitions of a session; one that leaves `active` and `awaiting_input` ends its claim.
   * Errors: 403 `forbidden`, 404, 409 `invalid_transition`.
   */
  updateSession: {
    method: 'PATCH',
    path: '/workspaces/{workspaceId}/sessions/{sessionId}',
    summary: 'Change a session’s state',
    ...shared,
    body: z.object({ state: z.enum(SESSION_STATES) }).meta({ id: 'SessionUpdate' }),
    response: session,
  },
  /**
   * W63. A lease of 60 s for a harness of the agent; the session becomes `active`.
   * Errors: 409 `session_already_claimed`, 409 `invalid_transition` where it is neither queued nor pending.
   */
  claimSession: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/sessions/{sessionId}/claims',
    summary: 'Claim a session',
    ...shared,
    body: z.object({ harnessId: z.string().regex(ID_PATTERN) }).meta({ id: 'NewClaim' }),
    response: claim,
  },
  /** W63. The session becomes `complete`. Errors: 409 `claim_ended`, 409 `invalid_transition`. */
  completeClaim: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/claims/{claimId}/complete',
    summary: 'End a claim with success',
    ...shared,
    response: claim,
    success: [200],
  },
  /** W63. The session becomes `error` with this text; the body may be left out. Errors as for completing. */
  failClaim: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/claims/{claimId}/fail',
    summary: 'End a claim with a failure',
    ...shared,
    body: z.object({ error: sent.text.optional() }).meta({ id: 'ClaimFailure' }).optional(),
    response: claim,
    success: [200],
  },
  /** W63. The session is queued again. Errors as for completing. */
  releaseClaim: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/claims/{claimId}/release',
    summary: 'Release a claim',
    ...shared,
    response: claim,
    success: [200],
  },
  /** W63. `{activities, nextCursor}`, newest first. */
  listActivities: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/sessions/{sessionId}/activities',
    summary: 'List the events of a session',
    ...shared,
    query: z.object(page),
    response: listOf('activities', activity, ['activityId'], { nextCursor }),
  },
  addActivity: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/sessions/{sessionId}/activities',
    summary: 'Report an activity of a session',
    ...shared,
    body: newActivity,
    response: activity,
  },
} as const satisfies Record<string, Route>;
