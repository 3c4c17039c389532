import { describe, expect, it } from 'vitest';
import { refused } from './general.ts';
import { ask, type Target, unique } from './target.ts';

export function describeWorkItems(held: { readonly it: Target }): void {
  const newTask = async (): Promise<string> => {
    const reply = await ask(held.it, 'POST', '/workspaces/current/bugs', { body: { title: unique('task') } });
    return reply.body.taskId;
  };
  const newUrl = () => `https://example.com/${unique('item')}`;

  describe.each(['', '/workspaces/current'])('W12, W38, W39 work items at %s/tasks/{taskId}/work-items', (prefix) => {
    const call = (method: string, taskId: string, rest = '', body?: unknown) =>
      ask(held.it, method, `${prefix}/tasks/${taskId}/work-items${rest}`, { body });

    it('W8, W38 POST 201 with the link; GET lists it; DELETE 204 removes it', async () => {
      const taskId = await newTask();
      const given = { url: newUrl(), title: 'T', externalId: 'worksync:x', provider: 'github' };
      const added = await call('POST', taskId, '', given);
      expect(added.status).toBe(201);
      expect(added.body).toEqual({
        ...given,
        workItemId: expect.stringMatching(/^[A-Za-z0-9_-]{1,64}$/),
        taskId,
        workspaceId: held.it.workspaceId,
        createdAt: expect.stringMatching(/Z$/),
      });
      expect((await call('GET', taskId)).body).toEqual({ workItems: [added.body] });
      const removed = await call('DELETE', taskId, `/${added.body.workItemId}`);
      expect([removed.status, removed.text]).toEqual([204, '']);
      expect((await call('GET', taskId)).body).toEqual({ workItems: [] });
      await refused(call('DELETE', taskId, `/${added.body.workItemId}`), 404);
    });

    it('W39, W74 the same address again: 200 with the existing link, unchanged', async () => {
      const [taskId, url] = [await newTask(), newUrl()];
      const first = await call('POST', taskId, '', { url, title: 'first' });
      const second = await call('POST', taskId, '', { url, title: 'second', externalId: 'other' });
      expect([second.status, second.body]).toEqual([200, first.body]);
      expect((await call('GET', taskId)).body.workItems).toHaveLength(1);
    });

    it('W39 the same address on another task is another link', async () => {
      const url = newUrl();
      const [one, other] = [await newTask(), await newTask()];
      expect((await call('POST', one, '', { url })).status).toBe(201);
      expect((await call('POST', other, '', { url })).status).toBe(201);
    });

    it('optional fields read as null', async () => {
      const reply = await call('POST', await newTask(), '', { url: newUrl() });
      expect(reply.body).toMatchObject({ title: null, externalId: null, provider: null });
    });

    it.each([
      ['none', {}],
      ['a relative one', { url: '/pull/1' }],
      ['javascript:', { url: 'javascript:alert(1)' }],
      ['ftp:', { url: 'ftp://example.com/x' }],
    ])('W39 400 for %s as address', async (_what, body) => {
      await refused(call('POST', await newTask(), '', body), 400);
    });

    it('404 for an unknown task or link', async () => {
      await refused(call('GET', 'tsk_unknown'), 404);
      await refused(call('POST', 'tsk_unknown', '', { url: newUrl() }), 404);
      await refused(call('DELETE', await newTask(), '/wi_unknown'), 404);
    });

    it("a link is not reached through another task's address", async () => {
      const [one, other] = [await newTask(), await newTask()];
      const added = await call('POST', one, '', { url: newUrl() });
      await refused(call('DELETE', other, `/${added.body.workItemId}`), 404);
    });
  });

  it('W39 twenty concurrent adds of one address make one link', async () => {
    const [taskId, url] = [await newTask(), newUrl()];
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => ask(held.it, 'POST', `/tasks/${taskId}/work-items`, { body: { url } })),
    );
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(new Set(replies.map(({ body }) => body.workItemId)).size).toBe(1);
  });
}
