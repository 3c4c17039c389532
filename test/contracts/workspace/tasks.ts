import { describe, expect, it } from 'vitest';
import { expectRefused } from './general.ts';
import { ask, ID, isEmbedded, requestsTo, type Target, TEXT, TIME, unique } from './target.ts';

type Task = { readonly taskId: string; readonly status: string; readonly kind: string };

export function describeTasks(held: { readonly it: Target }): void {
  const { call, create: post } = requestsTo(held);
  const create = (kind: 'bugs' | 'ideas', fields: object = {}) =>
    post(`/${kind}`, { title: unique('task'), ...fields });
  const update = (taskId: string, body: object) => call('PUT', `/tasks/${taskId}`, body);
  const list = async (query: string): Promise<Task[]> => (await call('GET', `/tasks?${query}`)).body.tasks;
  const ids = async (query: string) => (await list(query)).map(({ taskId }) => taskId);

  describe.each([
    ['bugs', 'bug', 'open', /^BUG-\d+$/],
    ['ideas', 'idea', 'idea', /^IDEA-\d+$/],
  ] as const)('W27 POST %s', (path, kind, status, key) => {
    it('W16, W27, W30, W31 201 with the created task, every field present', async () => {
      const title = unique('a new one');
      expect(await create(path, { title })).toEqual({
        taskId: expect.stringMatching(/^tsk_[A-Za-z0-9_-]+$/),
        key: expect.stringMatching(key),
        workspaceId: held.it.workspaceId,
        kind,
        title,
        description: null,
        status,
        priority: 'none',
        source: 'api',
        reporterUserId: TEXT,
        reportedAt: TIME,
        teamIds: [],
        assigneeIds: [],
        labels: [],
        userId: TEXT,
        createdAt: TIME,
        updatedAt: TIME,
        completedAt: null,
      });
    });

    it('W11, W28 keeps the given fields, at their largest', async () => {
      for (const fields of [
        { description: 'Zeile 1\n🦊', source: unique('github'), priority: 'high', labels: ['a', 'b'] },
        { title: 'x'.repeat(255), description: 'y'.repeat(200_000) },
      ])
        expect(await create(path, fields)).toMatchObject(fields);
    });

    it.each([
      ['title absent', { title: undefined }],
      ['title of blanks', { title: '   ' }],
      ['title of 256 characters', { title: 'x'.repeat(256) }],
      ['description of 200 001 characters', { description: 'x'.repeat(200_001) }],
      ['W32 unknown priority', { priority: 'soon' }],
      ['W33 reportedAt without offset', { reportedAt: '2026-01-02T03:04:05' }],
      ['W33 reportedAt on 30 February', { reportedAt: '2026-02-30T00:00:00Z' }],
      ['W34 labels of numbers', { labels: [1] }],
      ['W35 unknown assignee', { assigneeIds: ['usr_nobody'] }],
    ])('W28, W32, W33, W34, W35, W67 400 for %s', async (_what, fields) => {
      await expectRefused(call('POST', `/${path}`, { title: 'x', ...fields }), 400);
    });
  });

  describe('W36 GET tasks', () => {
    it('W29 without all=true: open work only, newest first, in pages', async () => {
      const made = [await create('bugs'), await create('ideas'), await create('bugs')].map(({ taskId }) => taskId);
      await update((await create('bugs')).taskId, { status: 'completed' });
      const { body } = await call('GET', '/tasks?limit=2');
      expect(body.tasks.map(({ taskId }: Task) => taskId)).toEqual([made[2], made[1]]);
      expect(await ids(`limit=1&cursor=${body.nextCursor}`)).toEqual([made[0]]);
    });

    it('W10 nextCursor is null at the end, and pages neither skip nor repeat while tasks are added', async () => {
      for (let n = 0; n < 5; n++) await create('ideas');
      const all = await ids('all=true');
      const seen: string[] = [];
      let cursor: string | null = '';
      while (cursor !== null && seen.length < 2_000) {
        const { body }: { body: { tasks: Task[]; nextCursor: string | null } } = await call(
          'GET',
          `/tasks?limit=100${cursor && `&cursor=${cursor}`}`,
        );
        seen.push(...body.tasks.map(({ taskId }) => taskId));
        cursor = body.nextCursor;
        await create('bugs');
      }
      expect(cursor).toBeNull();
      expect(new Set(seen).size).toBe(seen.length);
      expect(all).toEqual(expect.arrayContaining(seen));
    });

    it('W29, W36 all=true: every status in one answer', async () => {
      const { taskId } = await create('bugs');
      await update(taskId, { status: 'cancelled' });
      const { body } = await call('GET', '/tasks?all=true&limit=1');
      expect(body.tasks.map((task: Task) => task.taskId)).toContain(taskId);
      expect([body.tasks.length > 1, body.nextCursor]).toEqual([true, null]);
    });

    it('W36 filters by status, repeated or as a list, and by kind', async () => {
      const { taskId } = await create('bugs');
      await update(taskId, { status: 'blocked' });
      for (const query of ['status=blocked', 'status=blocked&status=review', 'status=review,blocked']) {
        const found = await list(query);
        expect(found[0]?.taskId).toBe(taskId);
        expect(found.filter(({ status }) => !['blocked', 'review'].includes(status))).toEqual([]);
      }
      const kinds = (await list('kind=idea&all=true')).map(({ kind }) => kind);
      expect(new Set(kinds)).toEqual(new Set(['idea']));
    });

    it.each(['status=unheard', 'kind=unheard', 'all=perhaps'])('W36, W67 400 for %s', async (query) => {
      await expectRefused(call('GET', `/tasks?${query}`), 400);
    });

    it.runIf(isEmbedded)('W28, W36 filters by team and assignee (needs seeded users)', async () => {
      const { service } = held.it.embedded!;
      const { workspaceId } = held.it;
      const userId = await service.addUser({ workspaceId, name: 'Ada', role: 'member' });
      const teamId = await service.addTeam({ workspaceId, name: 'Core' });
      const fields = { assigneeIds: [userId], teamIds: [teamId], reporterUserId: userId };
      const task = await create('bugs', fields);
      expect(task).toMatchObject(fields);
      await create('bugs', { teamIds: [teamId] });
      expect(await ids(`assigneeId=${userId}`)).toEqual([task.taskId]);
      expect(await ids(`teamId=${teamId}&assigneeId=${userId}`)).toEqual([task.taskId]);
      expect(await ids(`teamId=${teamId}`)).toHaveLength(2);
      await update(task.taskId, { assigneeIds: [] });
      expect(await ids(`assigneeId=${userId}`)).toEqual([]);
      expect(await ids(`teamId=${teamId}`)).toHaveLength(2);
    });
  });

  describe('W37 GET and PUT a task', () => {
    it('W37 sets completedAt on a final status and clears it on reopening', async () => {
      for (const status of ['completed', 'cancelled', 'merged']) {
        const { taskId } = await create('bugs');
        expect((await update(taskId, { status })).body).toMatchObject({ status, completedAt: TIME });
        const reopened = { status: 'in_progress', completedAt: null };
        expect((await update(taskId, { status: 'in_progress' })).body).toMatchObject(reopened);
      }
    });

    it.each(['PUT', 'PATCH'])('W37 keeps the fields that are not given to %s', async (method) => {
      const task = await create('ideas', { description: 'kept', labels: ['kept'] });
      expect(await call('GET', `/tasks/${task.taskId}`)).toMatchObject({ status: 200, body: task });
      const { body } = await call(method, `/tasks/${task.taskId}`, { title: 'changed' });
      expect(body).toEqual({ ...task, title: 'changed', updatedAt: body.updatedAt });
      expect((await call('GET', `/tasks/${task.taskId}`)).body).toEqual(body);
    });

    it('W37 changes a task with `If-Match` only while it has this `ETag`', async () => {
      const { taskId } = await create('bugs');
      const headers = { 'if-match': (await call('GET', `/tasks/${taskId}`)).headers.get('etag') ?? '' };
      const write = (title: string) => call('PUT', `/tasks/${taskId}`, { title }, { headers });
      expect(await write('first')).toMatchObject({ status: 200, body: { title: 'first' } });
      await expectRefused(write('second'), 412, 'precondition_failed');
      expect((await call('GET', `/tasks/${taskId}`)).body.title).toBe('first');
    });
  });
}

export function describeWorkItems(held: { readonly it: Target }): void {
  const { newTask } = requestsTo(held);
  const newUrl = () => `https://example.com/${unique('item')}`;

  describe.each(['', '/workspaces/current'])('W12, W38, W39 work items at %s/tasks/{taskId}/work-items', (prefix) => {
    const call = (method: string, taskId: string, rest = '', body?: unknown) =>
      ask(held.it, method, `${prefix}/tasks/${taskId}/work-items${rest}`, { body });

    it('W8, W38 POST 201 with the link; GET lists it; DELETE 204 removes it, through its own task only', async () => {
      const [taskId, other] = [await newTask(), await newTask()];
      const given = { url: newUrl(), title: 'T', externalId: 'worksync:x', provider: 'github' };
      const { status, body } = await call('POST', taskId, '', given);
      const { workspaceId } = held.it;
      expect(status).toBe(201);
      expect(body).toEqual({ ...given, workItemId: ID, taskId, workspaceId, createdAt: TIME });
      expect((await call('GET', taskId)).body).toEqual({ workItems: [body] });
      const remove = (from: string) => call('DELETE', from, `/${body.workItemId}`);
      await expectRefused(remove(other), 404);
      expect(await remove(taskId)).toMatchObject({ status: 204, text: '' });
      expect((await call('GET', taskId)).body).toEqual({ workItems: [] });
      await expectRefused(remove(taskId), 404);
    });

    it('W39, W74 the same address again: 200 with the existing link, unchanged; 201 at another task', async () => {
      const [taskId, url] = [await newTask(), newUrl()];
      const first = await call('POST', taskId, '', { url });
      expect(first.body).toMatchObject({ title: null, externalId: null, provider: null });
      const second = await call('POST', taskId, '', { url, title: 'second', externalId: 'other' });
      expect([second.status, second.body]).toEqual([200, first.body]);
      expect((await call('GET', taskId)).body.workItems).toHaveLength(1);
      expect((await call('POST', await newTask(), '', { url })).status).toBe(201);
    });

    it('W39 400 without an http address', async () => {
      for (const url of [undefined, '/pull/1', 'javascript:alert(1)', 'ftp://example.com/x'])
        await expectRefused(call('POST', await newTask(), '', { url }), 400);
    });
  });

  it('W39 twenty concurrent adds of one address make one link', async () => {
    const [taskId, url] = [await newTask(), newUrl()];
    const add = () => ask(held.it, 'POST', `/tasks/${taskId}/work-items`, { body: { url } });
    const replies = await Promise.all(Array.from({ length: 20 }, add));
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(new Set(replies.map(({ body }) => body.workItemId)).size).toBe(1);
  });
}
