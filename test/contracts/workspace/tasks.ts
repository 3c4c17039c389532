import { describe, expect, it } from 'vitest';
import { expectRefused, failure } from './general.ts';
import { ask, isEmbedded, type Target, unique } from './target.ts';

const ROOT = '/workspaces/current';
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

export function describeTasks(held: { readonly it: Target }): void {
  const call = (method: string, path: string, asked?: Parameters<typeof ask>[3]) =>
    ask(held.it, method, ROOT + path, asked);
  const create = async (kind: 'bugs' | 'ideas', fields: object = {}) => {
    const reply = await call('POST', `/${kind}`, { body: { title: unique('task'), ...fields } });
    expect(reply.status).toBe(201);
    return reply.body;
  };

  describe.each([
    ['bugs', 'bug', 'open', /^BUG-\d+$/],
    ['ideas', 'idea', 'idea', /^IDEA-\d+$/],
  ] as const)('W27 POST %s', (path, kind, status, key) => {
    it('W16, W27, W30, W31 201 with the created task, every field present', async () => {
      const title = unique('a new one');
      const reply = await call('POST', `/${path}`, { body: { title } });
      expect(reply.status).toBe(201);
      expect(reply.body).toEqual({
        taskId: expect.stringMatching(/^tsk_[A-Za-z0-9_-]+$/),
        key: expect.stringMatching(key),
        workspaceId: held.it.workspaceId,
        kind,
        title,
        description: null,
        status,
        priority: 'none',
        source: 'api',
        reporterUserId: expect.stringMatching(/./),
        reportedAt: expect.stringMatching(TIME),
        teamIds: [],
        assigneeIds: [],
        labels: [],
        userId: expect.stringMatching(/./),
        createdAt: expect.stringMatching(TIME),
        updatedAt: expect.stringMatching(TIME),
        completedAt: null,
      });
    });

    it('W28 keeps the fields given', async () => {
      const fields = { description: 'Zeile 1\n🦊', source: unique('github'), priority: 'high', labels: ['a', 'b'] };
      expect(await create(path, fields)).toMatchObject(fields);
    });

    it.each([
      ['title absent', { title: undefined }],
      ['title empty', { title: '' }],
      ['title of blanks', { title: '   ' }],
      ['title of 256 characters', { title: 'x'.repeat(256) }],
      ['title no string', { title: 7 }],
      ['description of 200 001 characters', { description: 'x'.repeat(200_001) }],
      ['W32 unknown priority', { priority: 'soon' }],
      ['W33 reportedAt without offset', { reportedAt: '2026-01-02T03:04:05' }],
      ['W33 reportedAt unparsable', { reportedAt: 'yesterday' }],
      ['W33 reportedAt on 30 February', { reportedAt: '2026-02-30T00:00:00Z' }],
      ['W34 labels of numbers', { labels: [1] }],
      ['W34 labels no list', { labels: 'bug' }],
      ['W35 unknown reporter', { reporterUserId: 'usr_nobody' }],
      ['W35 unknown assignee', { assigneeIds: ['usr_nobody'] }],
      ['W35 unknown team', { teamIds: ['team_nobody'] }],
    ])('W28, W32, W33, W34, W35, W67 400 for %s', async (_what, fields) => {
      const reply = await call('POST', `/${path}`, { body: { title: 'x', ...fields } });
      expect(reply).toMatchObject(failure(400, 'validation_failed'));
    });

    it('W11 takes a title of 255 and a description of 200 000 characters', async () => {
      const fields = { title: 'x'.repeat(255), description: 'y'.repeat(200_000) };
      expect(await create(path, fields)).toMatchObject(fields);
    });

    it('W28, W33 reportedAt with offset comes back as UTC', async () => {
      const task = await create(path, { reportedAt: '2026-03-01T00:30:00+01:00' });
      expect(Date.parse(task.reportedAt)).toBe(Date.parse('2026-02-28T23:30:00Z'));
      expect(task.reportedAt).toMatch(TIME);
    });

    it('W16, W28, W35 an API key gives a default reporter too', async () => {
      const reply = await call('POST', `/${path}`, { as: held.it.key, body: { title: unique('by key') } });
      expect(reply.body.reporterUserId).toMatch(/./);
    });

    it('W30 human keys count up and are never given twice', async () => {
      const created = await Promise.all(Array.from({ length: 12 }, () => create(path)));
      expect(new Set(created.map((task) => task.key)).size).toBe(12);
    });
  });

  describe('W36 GET tasks', () => {
    it('W29 without all=true: open work only, newest first, in pages', async () => {
      const made = [await create('bugs'), await create('ideas'), await create('bugs')].map((task) => task.taskId);
      const done = await create('bugs');
      await call('PUT', `/tasks/${done.taskId}`, { body: { status: 'completed' } });
      const first = await call('GET', '/tasks?limit=2');
      expect(first.body.tasks.map((task: { taskId: string }) => task.taskId)).toEqual([made[2], made[1]]);
      const second = await call('GET', `/tasks?limit=1&cursor=${first.body.nextCursor}`);
      expect(second.body.tasks[0].taskId).toBe(made[0]);
    });

    it('W10 nextCursor is null at the end, and pages neither skip nor repeat while tasks are added', async () => {
      const label = unique('source');
      for (let n = 0; n < 5; n++) await create('ideas', { source: label });
      const all = (await call('GET', '/tasks?all=true')).body.tasks.map((task: { taskId: string }) => task.taskId);
      const seen: string[] = [];
      let cursor: string | null = null;
      do {
        const reply = await call('GET', `/tasks?limit=100${cursor ? `&cursor=${cursor}` : ''}`);
        seen.push(...reply.body.tasks.map((task: { taskId: string }) => task.taskId));
        cursor = reply.body.nextCursor;
        await create('bugs');
      } while (cursor !== null && seen.length < 2_000);
      expect(cursor).toBeNull();
      expect(new Set(seen).size).toBe(seen.length);
      expect(all.filter((id: string) => seen.includes(id)).length).toBe(seen.length);
    });

    it('W29, W36 all=true: every status in one answer', async () => {
      const done = await create('bugs');
      await call('PUT', `/tasks/${done.taskId}`, { body: { status: 'cancelled' } });
      const reply = await call('GET', '/tasks?all=true&limit=1');
      expect(reply.body.tasks.map((task: { taskId: string }) => task.taskId)).toContain(done.taskId);
      expect(reply.body.tasks.length).toBeGreaterThan(1);
      expect(reply.body.nextCursor).toBeNull();
    });

    it('W36 filters by status, repeated or as a list, and by kind', async () => {
      const task = await create('bugs');
      await call('PUT', `/tasks/${task.taskId}`, { body: { status: 'blocked' } });
      for (const query of ['status=blocked', 'status=blocked&status=review', 'status=review,blocked']) {
        const { body } = await call('GET', `/tasks?${query}`);
        expect(body.tasks[0].taskId).toBe(task.taskId);
        expect(body.tasks.every((one: { status: string }) => ['blocked', 'review'].includes(one.status))).toBe(true);
      }
      const ideas = await call('GET', '/tasks?kind=idea&all=true');
      expect(ideas.body.tasks.length).toBeGreaterThan(0);
      expect(ideas.body.tasks.every((one: { kind: string }) => one.kind === 'idea')).toBe(true);
    });

    it.each(['status=unheard', 'kind=unheard', 'all=perhaps'])(
      'W28, W32, W33, W34, W35, W67 400 for %s',
      async (query) => {
        await expectRefused(call('GET', `/tasks?${query}`), 400);
      },
    );

    it.runIf(isEmbedded)('W28, W36 filters by team and assignee (needs seeded users)', async () => {
      const { service } = held.it.embedded!;
      const { workspaceId } = held.it;
      const userId = await service.addUser({ workspaceId, name: 'Ada', role: 'member' });
      const teamId = await service.addTeam({ workspaceId, name: 'Core' });
      const task = await create('bugs', { assigneeIds: [userId], teamIds: [teamId], reporterUserId: userId });
      expect(task).toMatchObject({ assigneeIds: [userId], teamIds: [teamId], reporterUserId: userId });
      await create('bugs', { teamIds: [teamId] });
      const ids = async (query: string) =>
        (await call('GET', `/tasks?${query}`)).body.tasks.map((one: { taskId: string }) => one.taskId);
      expect(await ids(`assigneeId=${userId}`)).toEqual([task.taskId]);
      expect(await ids(`teamId=${teamId}&assigneeId=${userId}`)).toEqual([task.taskId]);
      expect((await ids(`teamId=${teamId}`)).length).toBe(2);
      await call('PUT', `/tasks/${task.taskId}`, { body: { assigneeIds: [] } });
      expect(await ids(`assigneeId=${userId}`)).toEqual([]);
      expect((await ids(`teamId=${teamId}`)).length).toBe(2);
    });
  });

  describe('W37 GET and PUT a task', () => {
    it('answers the task as it was created', async () => {
      const task = await create('bugs', { labels: ['x'] });
      const reply = await call('GET', `/tasks/${task.taskId}`);
      expect([reply.status, reply.body]).toEqual([200, task]);
    });

    it.each(['completed', 'cancelled', 'merged'])(
      'W37 sets completedAt on %s and clears it on reopening',
      async (status) => {
        const task = await create('bugs');
        const done = await call('PUT', `/tasks/${task.taskId}`, { body: { status } });
        expect(done.body).toMatchObject({ status, completedAt: expect.stringMatching(TIME) });
        const again = await call('PUT', `/tasks/${task.taskId}`, { body: { status: 'in_progress' } });
        expect(again.body).toMatchObject({ status: 'in_progress', completedAt: null });
      },
    );

    it.each(['PUT', 'PATCH'])('W37 keeps the fields that are not given to %s', async (method) => {
      const task = await create('ideas', { description: 'kept', labels: ['kept'] });
      const reply = await call(method, `/tasks/${task.taskId}`, { body: { title: 'changed' } });
      expect(reply.body).toEqual({ ...task, title: 'changed', updatedAt: reply.body.updatedAt });
      expect((await call('GET', `/tasks/${task.taskId}`)).body).toEqual(reply.body);
    });

    it('W37 changes a task with `If-Match` only while it has this `ETag`', async () => {
      const { taskId } = await create('bugs');
      const { headers } = await call('GET', `/tasks/${taskId}`);
      const condition = { 'if-match': headers.get('etag') ?? '' };
      const write = (title: string) => call('PUT', `/tasks/${taskId}`, { body: { title }, headers: condition });
      expect(await write('first')).toMatchObject({ status: 200, body: { title: 'first' } });
      await expectRefused(write('second'), 412, 'precondition_failed');
      expect((await call('GET', `/tasks/${taskId}`)).body.title).toBe('first');
    });

    it('400 for an unknown status', async () => {
      const task = await create('bugs');
      await expectRefused(call('PUT', `/tasks/${task.taskId}`, { body: { status: 'odd' } }), 400);
    });
  });
}

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
      await expectRefused(call('DELETE', taskId, `/${added.body.workItemId}`), 404);
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
      await expectRefused(call('POST', await newTask(), '', body), 400);
    });

    it("a link is not reached through another task's address", async () => {
      const [one, other] = [await newTask(), await newTask()];
      const added = await call('POST', one, '', { url: newUrl() });
      await expectRefused(call('DELETE', other, `/${added.body.workItemId}`), 404);
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
