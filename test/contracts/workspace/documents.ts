import { describe, expect, it } from 'vitest';
import { expectRefused } from './general.ts';
import { ask, ID, isEmbedded, type Reply, requestsTo, type Target, TEXT, TIME, tokenOf, unique } from './target.ts';

const LONGEST = 200_000;

const idsOf = ({ status, body }: Reply): string[] => {
  expect(status).toBe(200);
  return body.documents.map((one: { documentId: string }) => one.documentId);
};

export function describeDocuments(held: { readonly it: Target }): void {
  const { call, create: post, newTask } = requestsTo(held);
  const create = (fields: object = {}) => post('/documents', { title: unique('document'), ...fields });
  const get = (documentId: string, headers: Record<string, string> = {}) =>
    call('GET', `/documents/${documentId}`, undefined, { headers });
  const put = (documentId: string, body: object, as?: string) =>
    call('PUT', `/documents/${documentId}`, body, as === undefined ? {} : { as });
  const patch = (documentId: string, ...ops: object[]) => call('PATCH', `/documents/${documentId}`, { ops });
  const list = async (query: string) => idsOf(await call('GET', `/documents?${query}`));

  describe('W46 POST documents', () => {
    it('W45 201 with the document, every field present', async () => {
      const title = unique('plan');
      expect(await create({ title })).toEqual({
        documentId: ID,
        workspaceId: held.it.workspaceId,
        title,
        type: 'requirement',
        status: 'draft',
        taskId: null,
        content: '',
        excerpt: '',
        createdByUserId: TEXT,
        updatedByUserId: TEXT,
        createdAt: TIME,
        updatedAt: TIME,
      });
    });

    it('W11, W45 keeps the given fields byte for byte, at their largest, with type and status in lower case', async () => {
      const taskId = await newTask();
      for (const content of ['Zeile 1\r\n\tZeile 2\n🦊\u0000', '€'.repeat(LONGEST)]) {
        const made = await create({ content, type: 'TASK', status: 'Completed', taskId });
        expect(made).toMatchObject({ content, type: 'task', status: 'completed', taskId });
        expect((await get(made.documentId)).body).toEqual(made);
      }
    });

    it.each([
      ['title absent', { title: undefined }],
      ['title of 256 characters', { title: 'x'.repeat(256) }],
      ['content no string', { content: 5 }],
      ['content of 200 001 characters', { content: 'x'.repeat(LONGEST + 1) }],
      ['half a surrogate pair', { content: 'x\ud83d' }],
      ['unknown status', { status: 'final' }],
      ['unknown task', { taskId: 'tsk_unknown' }],
    ])('W45 400 for %s', async (_what, fields) => {
      await expectRefused(call('POST', '/documents', { title: 'x', ...fields }), 400);
    });
  });

  it('W41, W46 GET one document with its body; ETag and 304', async () => {
    const made = await create({ content: 'the body' });
    const first = await get(made.documentId);
    expect([first.status, first.body]).toEqual([200, made]);
    const condition = { 'if-none-match': first.headers.get('etag')! };
    expect(await get(made.documentId, condition)).toMatchObject({ status: 304, text: '' });
    await patch(made.documentId, { kind: 'insert_after', anchor: 'body', text: '!' });
    expect(await get(made.documentId, condition)).toMatchObject({ status: 200, body: { content: 'the body!' } });
  });

  describe('W47 GET documents', () => {
    it('W41, W46, W47 newest first, with excerpt, and with content on demand only; ETag and 304', async () => {
      const word = unique('word');
      const [older, newer] = [await create({ title: word }), await create({ title: word, content: 'x'.repeat(5_000) })];
      const path = `/documents?title=${word}`;
      const reply = await call('GET', path);
      const { content, ...listed } = newer;
      expect(reply.body.documents[0]).toEqual(listed);
      expect(idsOf(reply)).toEqual([newer.documentId, older.documentId]);
      expect(listed.excerpt.length).toBeLessThan(1_000);
      expect(content.startsWith(listed.excerpt)).toBe(true);
      const headers = { 'if-none-match': reply.headers.get('etag')! };
      expect((await call('GET', path, undefined, { headers })).status).toBe(304);
      expect((await call('GET', `${path}&includeContent=true`)).body.documents).toEqual([newer, older]);
      expect((await call('GET', `${path}&includeContent=false`)).body).toEqual(reply.body);
    });

    it('W41, W47 filters by a part of the title in any case, taken literally', async () => {
      const word = unique('Ärger');
      const made = await create({ title: `100%_ ${word} [Straße]` });
      for (const part of [word.toUpperCase(), word.toLowerCase(), `100%_ ${word}`, `${word} [straße`])
        expect(await list(`title=${encodeURIComponent(part)}`)).toEqual([made.documentId]);
      for (const part of [`1__%_ ${word}`, `%${word}`, `${word}.*`])
        expect(await list(`title=${encodeURIComponent(part)}`)).toEqual([]);
    });

    it('W41, W47 filters by type and status, repeated or as a list, in any case, and by task', async () => {
      const title = unique('mixed');
      const taskId = await newTask();
      const made = [{}, { status: 'completed' }, { type: 'task', taskId }].map((fields) =>
        create({ title, ...fields }),
      );
      const [draft, done, task] = (await Promise.all(made)).map(({ documentId }) => documentId);
      const find = async (query: string) => new Set(await list(`title=${title}&${query}`));
      expect(await find('status=COMPLETED')).toEqual(new Set([done]));
      expect(await find('type=task')).toEqual(new Set([task]));
      expect(await find('type=requirement&status=draft')).toEqual(new Set([draft]));
      for (const both of ['type=task,requirement', 'type=task&type=Requirement', 'status=draft,completed'])
        expect(await find(both)).toEqual(new Set([task, done, draft]));
      expect(await list(`taskId=${taskId}`)).toEqual([task]);
      expect(await list('taskId=tsk_unknown')).toEqual([]);
    });

    it.runIf(isEmbedded)('W41, W47 filters by creator and updater (needs a second user)', async () => {
      const as = await tokenOf(held, 'member');
      const theirs = (await call('POST', '/documents', { title: 'by Ada' }, { as })).body;
      const ours = await create();
      await put(ours.documentId, { title: 'changed by Ada', content: '' }, as);
      const userId = theirs.createdByUserId;
      expect(await list(`createdByUserId=${userId}`)).toEqual([theirs.documentId]);
      expect(await list(`updatedByUserId=${userId}`)).toEqual([ours.documentId, theirs.documentId]);
      expect(await list(`updatedByUserId=${userId}&createdByUserId=usr_nobody`)).toEqual([]);
    });

    it('W10, W47 pages by cursor neither skip nor repeat while documents are added and deleted', async () => {
      const title = unique('page');
      const made: string[] = [];
      for (let n = 0; n < 5; n++) made.unshift((await create({ title })).documentId);
      const seen: string[] = [];
      let cursor: string | null = '';
      while (cursor !== null) {
        const reply: Reply = await call('GET', `/documents?title=${title}&limit=2${cursor && `&cursor=${cursor}`}`);
        seen.push(...idsOf(reply));
        cursor = reply.body.nextCursor;
        await create({ title });
        await call('DELETE', `/documents/${seen.at(-1)}`);
      }
      expect(seen).toEqual(made);
    });
  });

  describe('W48 PUT a document', () => {
    it('W41, W42, W48 replaces title, content and status; the rest is kept, and an absent status too', async () => {
      const made = await create({ content: 'old', type: 'task', taskId: await newTask() });
      const given = { title: unique('new'), content: 'new\r\n', status: 'COMPLETED' };
      const { status, body } = await put(made.documentId, given);
      expect(status).toBe(200);
      const changed = { ...given, status: 'completed', excerpt: 'new\r\n', updatedAt: TIME };
      expect(body).toEqual({ ...made, ...changed });
      expect((await get(made.documentId)).body).toEqual(body);
      expect(await list(`title=${given.title}`)).toEqual([made.documentId]);
      expect((await put(made.documentId, { title: 'x', content: '' })).body.status).toBe('completed');
    });
  });

  describe('W49 PATCH a document', () => {
    it('W41, W43, W49 the four kinds, in order, on the running text; answers the whole document', async () => {
      const made = await create({ content: 'one two three\r\n' });
      const { status, body } = await patch(
        made.documentId,
        { kind: 'replace_text', target: 'two', replacement: 'TWO' },
        { kind: 'insert_before', anchor: 'TWO', text: '[' },
        { kind: 'insert_after', anchor: '[TWO', text: ']' },
        { kind: 'delete_text', target: 'one ' },
      );
      expect(status).toBe(200);
      const content = '[TWO] three\r\n';
      expect(body).toEqual({ ...made, content, excerpt: content, updatedAt: TIME });
      expect((await get(made.documentId)).body).toEqual(body);
    });

    it.each([
      ['none', 'abc', 'x', 'patch_target_not_found'],
      ['other case', 'abc', 'ABC', 'patch_target_not_found'],
      ['several', 'abcabc', 'abc', 'patch_target_ambiguous'],
    ])('W49 409 when the matches are: %s; all or nothing', async (_what, content, target, errorCode) => {
      const made = await create({ content: `(${content}` });
      const first = { kind: 'delete_text', target: '(' };
      for (const operation of [
        { kind: 'replace_text', target, replacement: 'y' },
        { kind: 'delete_text', target },
        { kind: 'insert_before', anchor: target, text: 'y' },
        { kind: 'insert_after', anchor: target, text: 'y' },
      ])
        await expectRefused(patch(made.documentId, first, operation), 409, errorCode);
      expect((await get(made.documentId)).body).toEqual(made);
    });

    it.each([
      ['no list', {}],
      ['an empty list', { ops: [] }],
      ['101 operations', { ops: Array.from({ length: 101 }, () => ({ kind: 'insert_after', anchor: 'x', text: '' })) }],
      ['an unknown kind', { ops: [{ kind: 'append_text', text: 'x' }] }],
      ['an empty target', { ops: [{ kind: 'delete_text', target: '' }] }],
      ['half a surrogate pair as target', { ops: [{ kind: 'delete_text', target: '\ud83e' }] }],
      [
        'W11 a result over 200 000 characters',
        { ops: [{ kind: 'insert_after', anchor: 'x', text: 'y'.repeat(LONGEST) }] },
      ],
    ])('W11, W49 400 for %s, and nothing changes', async (_what, body) => {
      const made = await create({ content: 'x 🦊' });
      await expectRefused(call('PATCH', `/documents/${made.documentId}`, body), 400);
      expect((await get(made.documentId)).body).toEqual(made);
    });

    it('W49 concurrent patches are all applied, but only one of two of the same place', async () => {
      const marks = Array.from({ length: 20 }, (_, at) => `<${at}>`);
      const made = await create({ content: marks.join('') });
      const remove = (target: string) => patch(made.documentId, { kind: 'delete_text', target });
      const statuses = (await Promise.all(['<0>', ...marks].map(remove))).map(({ status }) => status);
      expect([statuses.filter((status) => status === 200).length, statuses.includes(409)]).toEqual([20, true]);
      expect((await get(made.documentId)).body.content).toBe('');
    });
  });

  it('W46 DELETE 204; then 404', async () => {
    const path = `/documents/${(await create()).documentId}`;
    expect(await call('DELETE', path)).toMatchObject({ status: 204, text: '' });
    for (const method of ['GET', 'DELETE']) await expectRefused(call(method, path), 404);
  });
}

export function describeTaskDocuments(held: { readonly it: Target }): void {
  const { call: at, create, newTask } = requestsTo(held);
  const newDocument = () => create('/documents', { title: unique('document'), content: 'text' });
  const read = async (documentId: string) => (await at('GET', `/documents/${documentId}`)).body;

  describe.each(['', '/workspaces/current'])('W12, W40, W44 documents at %s/tasks/{taskId}/documents', (prefix) => {
    const call = (method: string, taskId: string, rest = '', body?: unknown) =>
      ask(held.it, method, `${prefix}/tasks/${taskId}/documents${rest}`, { body });
    const listed = async (taskId: string) => idsOf(await call('GET', taskId));

    it('W40, W44 POST documentId attaches, 201, and again 200; GET lists it; DELETE 204 detaches it', async () => {
      const [taskId, made] = [await newTask(), await newDocument()];
      const { documentId } = made;
      const attached = await call('POST', taskId, '', { documentId });
      expect(attached.status).toBe(201);
      expect(attached.body).toEqual({ ...made, taskId, updatedAt: attached.body.updatedAt });
      const again = await call('POST', taskId, '', { documentId });
      expect([again.status, again.body]).toEqual([200, attached.body]);
      const { content: _left, ...shown } = attached.body;
      expect((await call('GET', taskId)).body).toEqual({ documents: [shown] });
      expect(await call('DELETE', taskId, `/${documentId}`)).toMatchObject({ status: 204, text: '' });
      expect(await listed(taskId)).toEqual([]);
      expect(await read(documentId)).toMatchObject({ taskId: null, content: 'text' });
      await expectRefused(call('DELETE', taskId, `/${documentId}`), 404);
    });

    it('W44 POST title, content and type creates and attaches, 201 with taskId; the newest is listed first', async () => {
      const taskId = await newTask();
      const given = { title: unique('made there'), content: 'x', type: 'task' };
      const { status, body } = await call('POST', taskId, '', given);
      expect([status, body]).toEqual([201, expect.objectContaining({ ...given, taskId })]);
      expect(await read(body.documentId)).toEqual(body);
      const newer = await call('POST', taskId, '', { title: 'newer' });
      expect(await listed(taskId)).toEqual([newer.body.documentId, body.documentId]);
    });

    it('W44 a document has one task: attaching it to another moves it', async () => {
      const [one, other, { documentId }] = [await newTask(), await newTask(), await newDocument()];
      await call('POST', one, '', { documentId });
      expect(await call('POST', other, '', { documentId })).toMatchObject({ status: 201, body: { taskId: other } });
      expect([await listed(one), await listed(other)]).toEqual([[], [documentId]]);
      await expectRefused(call('DELETE', one, `/${documentId}`), 404);
    });
  });
}
