import { describe, expect, it } from 'vitest';
import { expectRefused, failure } from './general.ts';
import { ask, isEmbedded, type Reply, type Target, unique } from './target.ts';

const PATH = '/workspaces/current/documents';
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const LONGEST = 200_000;

export function describeDocuments(held: { readonly it: Target }): void {
  const call = (method: string, path = '', asked?: Parameters<typeof ask>[3]) =>
    ask(held.it, method, PATH + path, asked);
  const create = async (fields: object = {}) => {
    const reply = await call('POST', '', { body: { title: unique('document'), ...fields } });
    expect(reply.status).toBe(201);
    return reply.body;
  };
  const patch = (documentId: string, ...ops: object[]) => call('PATCH', `/${documentId}`, { body: { ops } });
  const contentOf = async (documentId: string): Promise<string> => (await call('GET', `/${documentId}`)).body.content;
  const newTask = async (): Promise<string> =>
    (await ask(held.it, 'POST', '/workspaces/current/bugs', { body: { title: unique('task') } })).body.taskId;
  const idsOf = ({ status, body }: Reply): string[] => {
    expect(status).toBe(200);
    return body.documents.map((one: { documentId: string }) => one.documentId);
  };

  describe('W46 POST documents', () => {
    it('W45 201 with the document, every field present', async () => {
      const title = unique('plan');
      const reply = await call('POST', '', { body: { title } });
      expect(reply.status).toBe(201);
      expect(reply.body).toEqual({
        documentId: expect.stringMatching(/^[A-Za-z0-9_-]{1,64}$/),
        workspaceId: held.it.workspaceId,
        title,
        type: 'requirement',
        status: 'draft',
        taskId: null,
        content: '',
        excerpt: '',
        createdByUserId: expect.stringMatching(/./),
        updatedByUserId: expect.stringMatching(/./),
        createdAt: expect.stringMatching(TIME),
        updatedAt: expect.stringMatching(TIME),
      });
    });

    it('keeps the fields given, byte for byte', async () => {
      const taskId = await newTask();
      const fields = { content: 'Zeile 1\r\n\tZeile 2\n🦊\u0000', type: 'task', status: 'completed', taskId };
      const made = await create(fields);
      expect(made).toMatchObject(fields);
      expect((await call('GET', `/${made.documentId}`)).body).toEqual(made);
    });

    it('W45 type and status in any case, answered in lower case', async () => {
      expect(await create({ type: 'TASK', status: 'Completed' })).toMatchObject({ type: 'task', status: 'completed' });
    });

    it('W11 takes a content of 200 000 characters', async () => {
      const made = await create({ content: '€'.repeat(LONGEST) });
      expect(await contentOf(made.documentId)).toBe('€'.repeat(LONGEST));
    });

    it.each([
      ['title absent', { title: undefined }],
      ['title of blanks', { title: '  ' }],
      ['title of 256 characters', { title: 'x'.repeat(256) }],
      ['content no string', { content: 5 }],
      ['content null', { content: null }],
      ['content of 200 001 characters', { content: 'x'.repeat(LONGEST + 1) }],
      ['half a surrogate pair', { content: 'x\ud83d' }],
      ['unknown type', { type: 'memo' }],
      ['unknown status', { status: 'final' }],
      ['unknown task', { taskId: 'tsk_unknown' }],
    ])('W45 400 for %s', async (_what, fields) => {
      const reply = await call('POST', '', { body: { title: 'x', ...fields } });
      expect(reply).toMatchObject(failure(400, 'validation_failed'));
    });
  });

  describe('W46 GET a document', () => {
    it('W41 one document with its body; ETag and 304', async () => {
      const made = await create({ content: 'the body' });
      const first = await call('GET', `/${made.documentId}`);
      expect([first.status, first.body]).toEqual([200, made]);
      const etag = first.headers.get('etag')!;
      const again = await call('GET', `/${made.documentId}`, { headers: { 'if-none-match': etag } });
      expect([again.status, again.text]).toEqual([304, '']);
      await patch(made.documentId, { kind: 'insert_after', anchor: 'body', text: '!' });
      const changed = await call('GET', `/${made.documentId}`, { headers: { 'if-none-match': etag } });
      expect([changed.status, changed.body.content]).toEqual([200, 'the body!']);
    });
  });

  describe('W47 GET documents', () => {
    it('W41, W46 newest first, with excerpt and without content; ETag and 304', async () => {
      const word = unique('word');
      const [older, newer] = [await create({ title: word }), await create({ title: word, content: 'x'.repeat(5_000) })];
      const reply = await call('GET', `?title=${word}`);
      const { content: _left, ...listed } = newer;
      expect(reply.body.documents[0]).toEqual(listed);
      expect(idsOf(reply)).toEqual([newer.documentId, older.documentId]);
      expect(listed.excerpt.length).toBeLessThan(1_000);
      expect(newer.content.startsWith(listed.excerpt)).toBe(true);
      const etag = reply.headers.get('etag')!;
      expect((await call('GET', `?title=${word}`, { headers: { 'if-none-match': etag } })).status).toBe(304);
    });

    it('an excerpt does not end in half a surrogate pair', async () => {
      for (const shift of ['', 'x']) {
        const { excerpt } = await create({ content: shift + '🦊'.repeat(500) });
        expect([excerpt.isWellFormed(), excerpt.length > 100]).toEqual([true, true]);
      }
    });

    it('W46, W47 includeContent=true adds the content', async () => {
      const made = await create({ content: 'all of it' });
      const reply = await call('GET', `?title=${made.title}&includeContent=true`);
      expect(reply.body.documents).toEqual([made]);
      const without = await call('GET', `?title=${made.title}&includeContent=false`);
      expect(without.body.documents[0]).not.toHaveProperty('content');
    });

    it('W41, W47 filters by a part of the title in any case, taken literally', async () => {
      const word = unique('Ärger');
      const made = await create({ title: `100%_ ${word} [Straße]` });
      for (const part of [word.toUpperCase(), word.toLowerCase(), `100%_ ${word}`, `${word} [straße`])
        expect(idsOf(await call('GET', `?title=${encodeURIComponent(part)}`))).toEqual([made.documentId]);
      for (const part of [`1__%_ ${word}`, `%${word}`, `${word}.*`])
        expect(idsOf(await call('GET', `?title=${encodeURIComponent(part)}`))).toEqual([]);
    });

    it('W41, W47 filters by type and status, repeated or as a list, in any case', async () => {
      const word = unique('mixed');
      const [draft, done] = [await create({ title: word }), await create({ title: word, status: 'completed' })];
      const task = await create({ title: word, type: 'task' });
      const list = async (query: string) => idsOf(await call('GET', `?title=${word}&${query}`));
      expect(await list('status=COMPLETED')).toEqual([done.documentId]);
      expect(await list('type=task')).toEqual([task.documentId]);
      expect(await list('type=requirement&status=draft')).toEqual([draft.documentId]);
      for (const both of ['type=task,requirement', 'type=task&type=Requirement', 'status=draft,completed'])
        expect(await list(both)).toEqual([task, done, draft].map(({ documentId }) => documentId));
    });

    it('W41, W47 filters by task', async () => {
      const taskId = await newTask();
      const made = await create({ taskId });
      expect(idsOf(await call('GET', `?taskId=${taskId}`))).toEqual([made.documentId]);
      expect(idsOf(await call('GET', '?taskId=tsk_unknown'))).toEqual([]);
    });

    it.runIf(isEmbedded)('W41, W47 filters by creator and updater (needs a second user)', async () => {
      const { workspaceId } = held.it;
      const { service } = held.it.embedded!;
      const userId = await service.addUser({ workspaceId, name: 'Ada', role: 'member' });
      const { secret: as } = await service.mintToken({ workspaceId, userId, role: 'member', ttl: null });
      const theirs = (await call('POST', '', { as, body: { title: 'by Ada' } })).body;
      const ours = await create();
      await call('PUT', `/${ours.documentId}`, { as, body: { title: 'changed by Ada', content: '' } });
      expect(idsOf(await call('GET', `?createdByUserId=${userId}`))).toEqual([theirs.documentId]);
      expect(idsOf(await call('GET', `?updatedByUserId=${userId}`))).toEqual([ours.documentId, theirs.documentId]);
      expect(idsOf(await call('GET', `?updatedByUserId=${userId}&createdByUserId=usr_nobody`))).toEqual([]);
    });

    it('W10, W47 pages by cursor neither skip nor repeat while documents are added and deleted', async () => {
      const word = unique('page');
      const made: string[] = [];
      for (let n = 0; n < 5; n++) made.unshift((await create({ title: word })).documentId);
      const seen: string[] = [];
      let cursor: string | null = '';
      while (cursor !== null) {
        const reply: Reply = await call('GET', `?title=${word}&limit=2${cursor && `&cursor=${cursor}`}`);
        seen.push(...idsOf(reply));
        cursor = reply.body.nextCursor;
        await create({ title: word });
        await call('DELETE', `/${seen.at(-1)}`);
      }
      expect(seen).toEqual(made);
    });
  });

  describe('W48 PUT a document', () => {
    it('W41, W42, W48 replaces title, content and status; the rest is kept', async () => {
      const made = await create({ content: 'old', type: 'task', taskId: await newTask() });
      const given = { title: unique('new'), content: 'new\r\n', status: 'COMPLETED' };
      const reply = await call('PUT', `/${made.documentId}`, { body: given });
      expect(reply.status).toBe(200);
      expect(reply.body).toEqual({
        ...made,
        ...given,
        status: 'completed',
        excerpt: 'new\r\n',
        updatedAt: expect.stringMatching(TIME),
      });
      expect((await call('GET', `/${made.documentId}`)).body).toEqual(reply.body);
      expect(idsOf(await call('GET', `?title=${given.title}`))).toEqual([made.documentId]);
    });

    it('W48 an absent status is kept', async () => {
      const made = await create({ status: 'completed' });
      const reply = await call('PUT', `/${made.documentId}`, { body: { title: 'x', content: '' } });
      expect(reply.body.status).toBe('completed');
    });

    it.each([
      ['no title', { content: 'x' }],
      ['no content', { title: 'x' }],
      ['content null', { title: 'x', content: null }],
      ['unknown status', { title: 'x', content: 'x', status: 'final' }],
    ])('W48 400 with %s, and nothing changes', async (_what, body) => {
      const made = await create({ content: 'kept' });
      await expectRefused(call('PUT', `/${made.documentId}`, { body }), 400);
      expect((await call('GET', `/${made.documentId}`)).body).toEqual(made);
    });
  });

  describe('W49 PATCH a document', () => {
    it('W41, W43, W49 the four kinds, in order, on the running text; answers the whole document', async () => {
      const made = await create({ content: 'one two three\r\n' });
      const reply = await patch(
        made.documentId,
        { kind: 'replace_text', target: 'two', replacement: 'TWO' },
        { kind: 'insert_before', anchor: 'TWO', text: '[' },
        { kind: 'insert_after', anchor: '[TWO', text: ']' },
        { kind: 'delete_text', target: 'one ' },
      );
      expect(reply.status).toBe(200);
      const content = '[TWO] three\r\n';
      expect(reply.body).toEqual({ ...made, content, excerpt: content, updatedAt: expect.stringMatching(TIME) });
      expect((await call('GET', `/${made.documentId}`)).body).toEqual(reply.body);
    });

    it.each([
      ['none', 'abc', 'x', 'patch_target_not_found'],
      ['other case', 'abc', 'ABC', 'patch_target_not_found'],
      ['several', 'abcabc', 'abc', 'patch_target_ambiguous'],
      ['several that overlap', 'aaa', 'aa', 'patch_target_ambiguous'],
    ])('W49 409 when the matches are: %s', async (_what, content, target, errorCode) => {
      const made = await create({ content });
      for (const operation of [
        { kind: 'replace_text', target, replacement: 'y' },
        { kind: 'delete_text', target },
        { kind: 'insert_before', anchor: target, text: 'y' },
        { kind: 'insert_after', anchor: target, text: 'y' },
      ])
        await expectRefused(patch(made.documentId, operation), 409, errorCode);
      expect(await contentOf(made.documentId)).toBe(content);
    });

    it('W49 all or nothing: one that fails undoes those before it', async () => {
      const made = await create({ content: 'a b c' });
      const good = { kind: 'delete_text', target: 'a ' };
      const reply = await patch(made.documentId, good, { kind: 'delete_text', target: 'a ' });
      expect(reply).toMatchObject(failure(409, 'patch_target_not_found'));
      expect((await call('GET', `/${made.documentId}`)).body).toEqual(made);
    });

    it.each([
      ['no list', {}],
      ['an empty list', { ops: [] }],
      ['101 operations', { ops: Array.from({ length: 101 }, () => ({ kind: 'delete_text', target: 'x' })) }],
      ['an unknown kind', { ops: [{ kind: 'append_text', text: 'x' }] }],
      ['no kind', { ops: [{ target: 'x' }] }],
      ['an empty target', { ops: [{ kind: 'delete_text', target: '' }] }],
      ['an empty anchor', { ops: [{ kind: 'insert_after', anchor: '', text: 'x' }] }],
      ['no replacement', { ops: [{ kind: 'replace_text', target: 'x' }] }],
      ['no text', { ops: [{ kind: 'insert_before', anchor: 'x' }] }],
      ['half a surrogate pair as target', { ops: [{ kind: 'delete_text', target: '\ud83e' }] }],
    ])('W49 400 for %s', async (_what, body) => {
      const made = await create({ content: 'x 🦊' });
      await expectRefused(call('PATCH', `/${made.documentId}`, { body }), 400);
      expect(await contentOf(made.documentId)).toBe('x 🦊');
    });

    it('W11 400 when the result would be over 200 000 characters, and nothing changes', async () => {
      const made = await create({ content: `${'x'.repeat(LONGEST - 1)}y` });
      const reply = await patch(made.documentId, { kind: 'insert_after', anchor: 'y', text: '!' });
      expect(reply).toMatchObject(failure(400, 'validation_failed'));
      expect(await contentOf(made.documentId)).toBe(made.content);
    });

    it('W49 a body of 200 000 characters and 100 operations in one go', async () => {
      const lines = Array.from({ length: 100 }, (_, at) => `<${at}>`.padEnd(2_000, '.'));
      const made = await create({ content: lines.join('') });
      const ops = lines.map((_, at) => ({ kind: 'replace_text', target: `<${at}>`, replacement: `(${at})` }));
      const reply = await patch(made.documentId, ...ops);
      expect(reply.status).toBe(200);
      expect(reply.body.content).toBe(made.content.replaceAll('<', '(').replaceAll('>', ')'));
    });

    it('concurrent patches are all applied, none is lost', async () => {
      const marks = Array.from({ length: 20 }, (_, at) => `<${at}>`);
      const made = await create({ content: marks.join('') });
      const replies = await Promise.all(
        marks.map((mark) => patch(made.documentId, { kind: 'delete_text', target: mark })),
      );
      expect(replies.map(({ status }) => status)).toEqual(marks.map(() => 200));
      expect(await contentOf(made.documentId)).toBe('');
    });

    it('of two concurrent patches of one place one is refused', async () => {
      const made = await create({ content: 'once' });
      const twice = [1, 2].map(() => patch(made.documentId, { kind: 'delete_text', target: 'once' }));
      expect((await Promise.all(twice)).map(({ status }) => status).toSorted((left, right) => left - right)).toEqual([
        200, 409,
      ]);
    });
  });

  it('W46 DELETE 204; then 404', async () => {
    const made = await create();
    const removed = await call('DELETE', `/${made.documentId}`);
    expect([removed.status, removed.text]).toEqual([204, '']);
    await expectRefused(call('GET', `/${made.documentId}`), 404);
    await expectRefused(call('DELETE', `/${made.documentId}`), 404);
  });

  it('W15 an API key reads and writes documents', async () => {
    const as = held.it.key;
    const made = await call('POST', '', { as, body: { title: unique('by key') } });
    const read = await call('GET', `/${made.body.documentId}`, { as });
    expect([made.status, read.status, read.body]).toEqual([201, 200, made.body]);
    expect(made.body.createdByUserId).toMatch(/./);
  });
}

export function describeTaskDocuments(held: { readonly it: Target }): void {
  const newTask = async (): Promise<string> =>
    (await ask(held.it, 'POST', '/workspaces/current/bugs', { body: { title: unique('task') } })).body.taskId;
  const newDocument = async () =>
    (await ask(held.it, 'POST', PATH, { body: { title: unique('document'), content: 'text' } })).body;
  const read = async (documentId: string) => (await ask(held.it, 'GET', `${PATH}/${documentId}`)).body;

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
      await expectRefused(call('DELETE', taskId, `/${made.documentId}`), 404);
    });

    it('W44 POST title, content and type creates and attaches, 201 with taskId; the newest is listed first', async () => {
      const taskId = await newTask();
      const given = { title: unique('made there'), content: 'x', type: 'task' };
      const reply = await call('POST', taskId, '', given);
      expect(reply.status).toBe(201);
      expect(reply.body).toMatchObject({ ...given, taskId });
      expect(await read(reply.body.documentId)).toEqual(reply.body);
      const newer = await call('POST', taskId, '', { title: 'newer' });
      expect(await listed(taskId)).toEqual([newer.body.documentId, reply.body.documentId]);
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
      await expectRefused(call('DELETE', one, `/${made.documentId}`), 404);
    });

    it.each([[{}], [{ documentId: 7 }], [{ documentId: '../x' }], [{ content: 'x' }], [{ title: 'x', type: 'memo' }]])(
      '400 for %j',
      async (body) => {
        await expectRefused(call('POST', await newTask(), '', body), 400);
      },
    );
  });
}
