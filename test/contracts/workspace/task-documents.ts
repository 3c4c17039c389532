import { describe, expect, it } from 'vitest';
import { refused } from './general.ts';
import { ask, type Target, unique } from './target.ts';

const DOCUMENTS = '/workspaces/current/documents';

export function describeTaskDocuments(held: { readonly it: Target }): void {
  const newTask = async (): Promise<string> =>
    (await ask(held.it, 'POST', '/workspaces/current/bugs', { body: { title: unique('task') } })).body.taskId;
  const newDocument = async () =>
    (await ask(held.it, 'POST', DOCUMENTS, { body: { title: unique('document'), content: 'text' } })).body;
  const read = async (documentId: string) => (await ask(held.it, 'GET', `${DOCUMENTS}/${documentId}`)).body;

  describe.each(['', '/workspaces/current'])('W12, W40, W44 documents at %s/tasks/{taskId}/documents', (prefix) => {
    const call = (method: string, taskId: string, rest = '', body?: unknown) =>
      ask(held.it, method, `${prefix}/tasks/${taskId}/documents${rest}`, { body });
    const listed = async (taskId: string): Promise<string[]> =>
      (await call('GET', taskId)).body.documents.map((one: { documentId: string }) => one.documentId);

    it('W40, W44 POST documentId attaches, 201 with taskId; GET lists it; DELETE 204 detaches it', async () => {
      const [taskId, made] = [await newTask(), await newDocument()];
      const attached = await call('POST', taskId, '', { documentId: made.documentId });
      expect(attached.status).toBe(201);
      expect(attached.body).toEqual({ ...made, taskId, updatedAt: attached.body.updatedAt });
      const { content: _left, ...shown } = attached.body;
      expect((await call('GET', taskId)).body).toEqual({ documents: [shown] });
      const detached = await call('DELETE', taskId, `/${made.documentId}`);
      expect([detached.status, detached.text]).toEqual([204, '']);
      expect(await listed(taskId)).toEqual([]);
      expect(await read(made.documentId)).toMatchObject({ taskId: null, content: 'text' });
      await refused(call('DELETE', taskId, `/${made.documentId}`), 404);
    });

    it('W44 POST title, content and type creates and attaches, 201 with taskId', async () => {
      const taskId = await newTask();
      const given = { title: unique('made there'), content: 'x', type: 'task' };
      const reply = await call('POST', taskId, '', given);
      expect(reply.status).toBe(201);
      expect(reply.body).toMatchObject({ ...given, taskId });
      expect(await read(reply.body.documentId)).toEqual(reply.body);
      expect(await listed(taskId)).toEqual([reply.body.documentId]);
    });

    it('W44 attaching again: 200 with the same document, unchanged', async () => {
      const [taskId, made] = [await newTask(), await newDocument()];
      const first = await call('POST', taskId, '', { documentId: made.documentId });
      const second = await call('POST', taskId, '', { documentId: made.documentId });
      expect([second.status, second.body]).toEqual([200, first.body]);
      expect(await listed(taskId)).toEqual([made.documentId]);
    });

    it('W44 a document has one task: attaching it to another moves it', async () => {
      const [one, other, made] = [await newTask(), await newTask(), await newDocument()];
      await call('POST', one, '', { documentId: made.documentId });
      const moved = await call('POST', other, '', { documentId: made.documentId });
      expect([moved.status, moved.body.taskId]).toEqual([201, other]);
      expect([await listed(one), await listed(other)]).toEqual([[], [made.documentId]]);
      await refused(call('DELETE', one, `/${made.documentId}`), 404);
    });

    it('newest first; ETag and 304', async () => {
      const taskId = await newTask();
      const made = [await call('POST', taskId, '', { title: 'a' }), await call('POST', taskId, '', { title: 'b' })];
      expect(await listed(taskId)).toEqual([made[1]!.body.documentId, made[0]!.body.documentId]);
      const etag = (await call('GET', taskId)).headers.get('etag')!;
      const path = `${prefix}/tasks/${taskId}/documents`;
      expect((await ask(held.it, 'GET', path, { headers: { 'if-none-match': etag } })).status).toBe(304);
    });

    it('404 for an unknown task or document', async () => {
      const made = await newDocument();
      await refused(call('GET', 'tsk_unknown'), 404);
      await refused(call('POST', 'tsk_unknown', '', { title: 'x' }), 404);
      await refused(call('POST', 'tsk_unknown', '', { documentId: made.documentId }), 404);
      await refused(call('POST', await newTask(), '', { documentId: 'doc_unknown' }), 404);
      await refused(call('DELETE', await newTask(), `/${made.documentId}`), 404);
    });

    it.each([[{}], [{ documentId: 7 }], [{ documentId: '../x' }], [{ content: 'x' }], [{ title: 'x', type: 'memo' }]])(
      '400 for %j',
      async (body) => {
        await refused(call('POST', await newTask(), '', body), 400);
      },
    );
  });
}
