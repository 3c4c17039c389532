import { expect, it, onTestFinished } from 'vitest';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { NO_QUOTA, startWorkspaceService } from '../../support/fakes/workspace-service.ts';
import { expectRefused, failure } from './general.ts';
import { isEmbedded, requestsTo, type Target, TIME, tokenOf, unique } from './target.ts';

const STATES = ['queued', 'pending', 'active', 'awaiting_input', 'complete', 'error', 'stale', 'cancelled'] as const;
type State = (typeof STATES)[number];

const ALLOWED: Readonly<Record<State, readonly State[]>> = {
  queued: ['pending', 'active', 'cancelled'],
  pending: ['queued', 'active', 'cancelled'],
  active: ['awaiting_input', 'complete', 'error', 'stale', 'cancelled'],
  awaiting_input: ['active'],
  stale: ['queued'],
  complete: [],
  error: [],
  cancelled: [],
};

/** How a session gets into a state by changes of state alone. */
const WAY: Readonly<Record<State, readonly State[]>> = {
  queued: [],
  pending: ['pending'],
  active: ['active'],
  awaiting_input: ['active', 'awaiting_input'],
  complete: ['active', 'complete'],
  error: ['active', 'error'],
  stale: ['active', 'stale'],
  cancelled: ['cancelled'],
};

type Server = Pick<Target, 'url' | 'token'>;

async function agentOn(server: Server) {
  const { call: send, create } = requestsTo({ it: server });
  const call = (method: string, path: string, body?: unknown, as = server.token) => send(method, path, body, { as });
  const agent = await create('/agents', { name: unique('agent') });
  const harness = await create(`/agents/${agent.agentId}/harnesses`, { name: 'runner', version: '1.2' });
  const { harnessId } = harness;
  const queue = (body: object = {}) => create(`/agents/${agent.agentId}/sessions`, { title: unique('work'), ...body });
  return {
    agent,
    harness,
    call,
    queue,
    read: async (sessionId: string) => (await call('GET', `/sessions/${sessionId}`)).body,
    move: (sessionId: string, state: string, as?: string) => call('PATCH', `/sessions/${sessionId}`, { state }, as),
    claim: (sessionId: string, by = harnessId) => call('POST', `/sessions/${sessionId}/claims`, { harnessId: by }),
    end: (claimId: string, how: string, body?: unknown) => call('POST', `/claims/${claimId}/${how}`, body),
    beat: (id = harnessId) => call('POST', `/agents/${agent.agentId}/harnesses/${id}/heartbeat`),
  };
}

export function describeAgents(held: { readonly it: Target }): void {
  it('W63 an agent is made, replaced and listed, with a harness that says that it lives', async () => {
    const { agent, harness, call, beat } = await agentOn(held.it);
    const replaced = await call('PUT', `/agents/${agent.agentId}`, { name: 'Renamed', description: 'Fixes bugs' });
    expect(replaced.body).toEqual({ ...agent, name: 'Renamed', description: 'Fixes bugs', updatedAt: TIME });
    expect((await call('GET', `/agents/${agent.agentId}`)).body).toEqual(replaced.body);
    expect((await call('GET', '/agents')).body.agents).toContainEqual(replaced.body);
    const beaten = await beat();
    expect(Date.parse(beaten.body.lastHeartbeatAt)).toBeGreaterThanOrEqual(Date.parse(harness.createdAt));
    expect((await call('GET', `/agents/${agent.agentId}/harnesses`)).body.harnesses).toEqual([beaten.body]);
    await expectRefused(beat('hrn_unknown'), 404);
  });

  it('W63 a session is queued for an agent, for a task or none', async () => {
    const { agent, queue, read, call } = await agentOn(held.it);
    const taskId = await requestsTo(held).newTask();
    const session = await queue({ taskId });
    expect(session).toMatchObject({ agentId: agent.agentId, taskId, state: 'queued', error: null, claim: null });
    expect(await read(session.sessionId)).toEqual(session);
    const unknown = { title: 'x', taskId: 'tsk_unknown' };
    await expectRefused(call('POST', `/agents/${agent.agentId}/sessions`, unknown), 400);
  });

  const inState = async (state: State) => {
    const agent = await agentOn(held.it);
    const { sessionId } = await agent.queue();
    for (const step of WAY[state]) await agent.move(sessionId, step);
    expect((await agent.read(sessionId)).state).toBe(state);
    return { ...agent, sessionId };
  };

  it.each(STATES)('W63 a session that is %s moves and is claimed as its state allows, else 409', async (from) => {
    const { sessionId, move, read, claim } = await inState(from);
    for (const to of STATES.filter((each) => !ALLOWED[from].includes(each)))
      await expectRefused(move(sessionId, to), 409, 'invalid_transition');
    expect((await read(sessionId)).state).toBe(from);
    for (const to of ALLOWED[from]) {
      const other = await inState(from);
      const moved = await other.move(other.sessionId, to);
      expect(moved).toMatchObject({ status: 200, body: { state: to } });
      expect(moved.body.endedAt !== null).toBe(ALLOWED[to].length === 0);
    }
    const waits = from === 'queued' || from === 'pending';
    expect(await claim(sessionId)).toMatchObject(waits ? { status: 201 } : failure(409, 'invalid_transition'));
  });

  it('W63 of twenty that claim at once one gets a lease of 60 s, also while input is awaited', async () => {
    const { harness, queue, claim, read, move } = await agentOn(held.it);
    const { sessionId } = await queue();
    const replies = await Promise.all(Array.from({ length: 20 }, () => claim(sessionId)));
    expect(replies.filter(({ body }) => body.errorCode === 'session_already_claimed')).toHaveLength(19);
    const { body } = replies.find(({ status }) => status === 201)!;
    expect(body).toMatchObject({ sessionId, harnessId: harness.harnessId, state: 'active', endedAt: null });
    expect(Date.parse(body.expiresAt) - Date.parse(body.createdAt)).toBe(60_000);
    expect(await read(sessionId)).toMatchObject({ state: 'active', claim: body });
    await move(sessionId, 'awaiting_input');
    await expectRefused(claim(sessionId), 409, 'session_already_claimed');
  });

  it.each([
    ['complete', 'completed', 'complete'],
    ['fail', 'failed', 'error'],
    ['release', 'released', 'queued'],
  ])('W63 %s ends the claim, which then is %s, and the session is %s', async (how, ended, state) => {
    const { queue, claim, end, read } = await agentOn(held.it);
    const { sessionId } = await queue();
    const { claimId } = (await claim(sessionId)).body;
    const reply = await end(claimId, how, how === 'fail' ? { error: 'no tests' } : undefined);
    expect(reply).toMatchObject({ status: 200, body: { claimId, state: ended, endedAt: TIME } });
    expect(await read(sessionId)).toMatchObject({ state, claim: null, error: how === 'fail' ? 'no tests' : null });
    for (const again of ['complete', 'fail', 'release']) await expectRefused(end(claimId, again), 409, 'claim_ended');
    expect((await claim(sessionId)).status).toBe(how === 'release' ? 201 : 409);
  });

  it.runIf(isEmbedded)(
    'W63 an agent is run by its own member, an admin or an owner; others may read it and queue work for it',
    async () => {
      const member = await tokenOf(held, 'member');
      const mine = await agentOn({ url: held.it.url, token: member });
      const { sessionId } = await mine.queue();
      const stranger = await tokenOf(held, 'member');
      const { agentId } = mine.agent;
      const { harnessId } = mine.harness;
      const as = (token: string, method: string, path: string, body?: unknown) => mine.call(method, path, body, token);
      for (const [method, path, body] of [
        ['PUT', `/agents/${agentId}`, { name: 'mine' }],
        ['POST', `/agents/${agentId}/harnesses`, { name: 'x' }],
        ['POST', `/agents/${agentId}/harnesses/${harnessId}/heartbeat`],
        ['PATCH', `/sessions/${sessionId}`, { state: 'cancelled' }],
        ['POST', `/sessions/${sessionId}/claims`, { harnessId }],
        ['POST', `/sessions/${sessionId}/activities`, { type: 'progress', content: 'x' }],
      ] as const)
        await expectRefused(as(stranger, method, path, body), 403);
      expect((await as(stranger, 'GET', `/agents/${agentId}`)).status).toBe(200);
      const asked = await as(stranger, 'POST', `/agents/${agentId}/sessions`, { title: 'please' });
      expect(asked.status).toBe(201);
      // The member who queued a session may cancel it.
      expect((await mine.move(asked.body.sessionId, 'cancelled', stranger)).status).toBe(200);
      expect((await as(await tokenOf(held, 'admin'), 'PUT', `/agents/${agentId}`, { name: 'led' })).status).toBe(200);
    },
  );
}

/** The test controls the clock of the service. */
export function describeLeases(): void {
  it('W63 a lease ends 60 s after the last heartbeat: the session is stale, and may be queued and claimed again', async () => {
    const clock = createTravellingClock();
    const running = await startWorkspaceService({ clock, quota: NO_QUOTA });
    onTestFinished(() => running.close());
    const server = { url: running.url, token: running.oauthToken };
    const { agent, queue, claim, read, move, end, beat, call } = await agentOn(server);
    const { sessionId } = await queue();
    const { claimId } = (await claim(sessionId)).body;
    await clock.advance(50_000);
    await beat();
    await move(sessionId, 'awaiting_input');
    await clock.advance(59_999);
    expect(await read(sessionId)).toMatchObject({ state: 'awaiting_input', claim: { claimId } });
    await clock.advance(1);
    const listed = await call('GET', `/agents/${agent.agentId}/sessions?state=stale`);
    expect(listed.body.sessions).toMatchObject([{ sessionId, state: 'stale', claim: null }]);
    // Too late.
    await beat();
    await expectRefused(end(claimId, 'complete'), 409, 'claim_ended');
    await expectRefused(claim(sessionId), 409, 'invalid_transition');
    expect((await move(sessionId, 'queued')).status).toBe(200);
    const second = await claim(sessionId);
    expect(second.status).toBe(201);
    expect((await read(sessionId)).claim).toEqual(second.body);
  });
}
