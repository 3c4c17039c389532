import { describe, expect, it } from 'vitest';
import { expectRefused } from './general.ts';
import { ask, isEmbedded, type Target, unique } from './target.ts';

const PATH = '/workspaces/current/api-keys';

export function describeApiKeys(held: { readonly it: Target }): void {
  const create = async (description = unique('key')) => {
    const reply = await ask(held.it, 'POST', PATH, { body: { description } });
    expect(reply.status).toBe(201);
    return reply.body;
  };
  const revoke = (apiKeyId: string) => ask(held.it, 'DELETE', `${PATH}/${apiKeyId}`);
  const list = async () => (await ask(held.it, 'GET', PATH)).body.apiKeys;

  it('W19, W24 201 with the key and its secret, which no later answer shows', async () => {
    const description = unique('CI');
    const reply = await ask(held.it, 'POST', PATH, { body: { description: `  ${description} ` } });
    expect(reply.status).toBe(201);
    const { secret, ...shown } = reply.body;
    expect(shown).toEqual({
      apiKeyId: expect.stringMatching(/^[A-Za-z0-9_-]{1,64}$/),
      workspaceId: held.it.workspaceId,
      description,
      status: 'active',
      keyPrefix: expect.stringMatching(/./),
      createdByUserId: expect.stringMatching(/./),
      createdAt: expect.stringMatching(/Z$/),
      lastUsedAt: null,
      revokedAt: null,
    });
    expect(secret.startsWith(shown.keyPrefix)).toBe(true);
    const listed = await ask(held.it, 'GET', PATH);
    expect(listed.text).not.toContain(secret);
    expect(listed.body.apiKeys).toContainEqual(shown);
    await revoke(shown.apiKeyId);
  });

  it('W22, W25 revoking takes effect immediately; W26 401 like an unknown key; the list keeps it as revoked', async () => {
    const { apiKeyId, secret } = await create();
    expect((await ask(held.it, 'GET', '/workspaces/current/tasks', { as: secret })).status).toBe(200);
    const revoked = await revoke(apiKeyId);
    expect([revoked.status, revoked.text]).toEqual([204, '']);
    const after = await ask(held.it, 'GET', '/workspaces/current/tasks', { as: secret });
    const unknown = await ask(held.it, 'GET', '/workspaces/current/tasks', { as: 'wsk_unknown' });
    expect([after.status, after.body]).toEqual([401, unknown.body]);
    const kept = (await list()).find((key: { apiKeyId: string }) => key.apiKeyId === apiKeyId);
    expect(kept).toMatchObject({ status: 'revoked', revokedAt: expect.stringMatching(/Z$/) });
    expect((await revoke(apiKeyId)).status).toBe(204);
  });

  it('W15 a key reads and writes', async () => {
    const as = held.it.key;
    const made = await ask(held.it, 'POST', '/workspaces/current/bugs', { as, body: { title: unique('by key') } });
    const read = await ask(held.it, 'GET', `/workspaces/current/tasks/${made.body.taskId}`, { as });
    expect([made.status, read.status, read.body]).toEqual([201, 200, made.body]);
  });

  it.each([
    [{}],
    [{ description: '' }],
    [{ description: '   ' }],
    [{ description: 'x'.repeat(256) }],
    [{ description: 5 }],
  ])('W24 400 for %j', async (body) => {
    await expectRefused(ask(held.it, 'POST', PATH, { body }), 400);
  });

  it('W20, W21, W26 at most 20 active keys; revoking one makes room', async () => {
    const active = (await list()).filter((key: { status: string }) => key.status === 'active').length;
    const made: string[] = [];
    for (let n = active; n < 20; n++) made.push((await create()).apiKeyId);
    await expectRefused(ask(held.it, 'POST', PATH, { body: { description: 'x' } }), 409, 'api_key_limit_reached');
    await revoke(made.pop()!);
    made.push((await create()).apiKeyId);
    for (const apiKeyId of made) await revoke(apiKeyId);
  });

  it('W20 concurrent creations do not pass the maximum', async () => {
    const replies = await Promise.all(
      Array.from({ length: 25 }, () => ask(held.it, 'POST', PATH, { body: { description: unique('race') } })),
    );
    const active = (await list()).filter((key: { status: string }) => key.status === 'active');
    expect(active).toHaveLength(20);
    for (const { body } of replies.filter(({ status }) => status === 201)) await revoke(body.apiKeyId);
  });

  describe.runIf(isEmbedded)('roles (needs tokens minted beside the API)', () => {
    const tokenOf = async (role: 'owner' | 'admin' | 'member', ttl: number | null, bound = true) => {
      const { service } = held.it.embedded!;
      const { workspaceId } = held.it;
      const userId = await service.addUser({ workspaceId, name: role, role });
      return (await service.mintToken({ workspaceId: bound ? workspaceId : null, userId, role, ttl })).secret;
    };

    it('W21 an admin manages keys; W26 403 forbidden for a plain member', async () => {
      expect((await ask(held.it, 'GET', PATH, { as: await tokenOf('admin', null) })).status).toBe(200);
      const as = await tokenOf('member', null);
      await expectRefused(ask(held.it, 'GET', PATH, { as }), 403);
      await expectRefused(ask(held.it, 'POST', PATH, { as, body: { description: 'x' } }), 403);
      expect((await ask(held.it, 'GET', '/workspaces/current/tasks', { as })).status).toBe(200);
    });

    it('W18 an expired token is refused', async () => {
      const as = await tokenOf('owner', 0);
      await expectRefused(ask(held.it, 'GET', PATH, { as }), 401);
    });

    it("W3 a token without a workspace: 403 for current, its user's workspaces by id", async () => {
      const as = await tokenOf('owner', null, false);
      await expectRefused(ask(held.it, 'GET', '/workspaces/current/tasks', { as }), 403, 'workspace_forbidden');
      await expectRefused(ask(held.it, 'GET', '/tasks/tsk_x/work-items', { as }), 403, 'workspace_forbidden');
      expect((await ask(held.it, 'GET', `/workspaces/${held.it.workspaceId}/tasks`, { as })).status).toBe(200);
      await expectRefused(ask(held.it, 'GET', '/workspaces/ws_other/tasks', { as }), 403, 'workspace_forbidden');
    });
  });
}
