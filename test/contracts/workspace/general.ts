import { describe, expect, it } from 'vitest';
import { ask, ID, isEmbedded, requestsTo, type Target, TEXT, TIME, tokenOf, unique } from './target.ts';

const TASKS = '/workspaces/current/tasks';

/** The error object, with all three fields and the status as `code`; for `toMatchObject`. */
export function failure(status: number, errorCode: string) {
  return { status, body: { code: status, message: expect.stringMatching(/./), errorCode } };
}

/** The error code that each status has unless the contract names another. */
const USUAL: Readonly<Record<number, string>> = {
  ...{ 400: 'validation_failed', 401: 'unauthorized', 403: 'forbidden', 404: 'not_found', 413: 'payload_too_large' },
};

const BUGS = '/workspaces/current/bugs';
const DOCUMENTS = '/workspaces/current/documents';
const AGENTS = '/workspaces/current/agents';
const RECORD = { provider: 'github', repoId: 'unknown', identifier: '7' };

type Route = readonly [method: string, path: string, body?: unknown];

/** Routes to what is not there, beside a task and a document that are. */
const UNKNOWN: readonly Route[] = [
  ['GET', '/nothing/here'],
  ['GET', `${TASKS}/tsk_unknown`],
  ['PUT', `${TASKS}/tsk_unknown`, { title: 'x' }],
  ['GET', `${DOCUMENTS}/doc_unknown`],
  ['PUT', `${DOCUMENTS}/doc_unknown`, { title: 'x', content: 'y' }],
  ['PATCH', `${DOCUMENTS}/doc_unknown`, { ops: [{ kind: 'delete_text', target: 'x' }] }],
  ['DELETE', `${DOCUMENTS}/doc_unknown`],
  ...['', '/workspaces/current'].flatMap((prefix): readonly Route[] => [
    ['GET', `${prefix}/tasks/tsk_unknown/work-items`],
    ['POST', `${prefix}/tasks/tsk_unknown/work-items`, { url: 'https://example.com/x' }],
    ['DELETE', `${prefix}/tasks/{task}/work-items/wi_unknown`],
    ['GET', `${prefix}/tasks/tsk_unknown/documents`],
    ['POST', `${prefix}/tasks/tsk_unknown/documents`, { title: 'x' }],
    ['POST', `${prefix}/tasks/{task}/documents`, { documentId: 'doc_unknown' }],
    ['DELETE', `${prefix}/tasks/{task}/documents/{document}`],
  ]),
  ['DELETE', '/workspaces/current/api-keys/key_unknown'],
  ['PATCH', '/workspaces/current/pull-requests', { ...RECORD, title: 'x' }],
  ['GET', `${AGENTS}/agt_unknown`],
  ['POST', '/workspaces/current/sessions/ses_unknown/claims', { harnessId: 'hrn_unknown' }],
  ['POST', '/workspaces/current/claims/clm_unknown/complete'],
];

/** Routes that API keys may not use, by the code of the refusal. */
const FOR_PEOPLE: Readonly<Record<string, readonly Route[]>> = {
  oauth_token_required: [
    ...['api-keys', 'webhooks'].flatMap((noun): readonly Route[] => [
      ['GET', `/workspaces/current/${noun}`],
      ['POST', `/workspaces/current/${noun}`, { description: 'x', url: 'https://receiver.invalid/' }],
      ['DELETE', `/workspaces/current/${noun}/x`],
    ]),
  ],
  api_key_not_allowed: [
    ['GET', AGENTS],
    ['POST', AGENTS, { name: 'x' }],
    ['GET', `${AGENTS}/agt_x`],
    ['PUT', `${AGENTS}/agt_x`, { name: 'x' }],
    ['GET', `${AGENTS}/agt_x/harnesses`],
    ['POST', `${AGENTS}/agt_x/harnesses`, { name: 'x' }],
    ['POST', `${AGENTS}/agt_x/harnesses/hrn_x/heartbeat`],
    ['GET', `${AGENTS}/agt_x/sessions`],
    ['POST', `${AGENTS}/agt_x/sessions`, { title: 'x' }],
    ['GET', '/workspaces/current/sessions/ses_x'],
    ['PATCH', '/workspaces/current/sessions/ses_x', { state: 'active' }],
    ['POST', '/workspaces/current/sessions/ses_x/claims', { harnessId: 'x' }],
    ...['complete', 'fail', 'release'].map((how): Route => ['POST', `/workspaces/current/claims/clm_x/${how}`]),
    ['GET', '/workspaces/current/sessions/ses_x/activities'],
    ['POST', '/workspaces/current/sessions/ses_x/activities', { type: 'progress', content: 'x' }],
  ],
};

export async function expectRefused(
  reply: Promise<object>,
  status: number,
  errorCode = USUAL[status] ?? '',
): Promise<void> {
  expect(await reply).toMatchObject(failure(status, errorCode));
}

export function describeGeneral(held: { readonly it: Target }): void {
  const call = (method: string, path: string, asked?: Parameters<typeof ask>[3]) => ask(held.it, method, path, asked);

  describe('workspace and credentials', () => {
    it('W2 `current` and the id name the same workspace', async () => {
      const { workspaceId, key } = held.it;
      for (const as of [key, held.it.token]) {
        const [current, named] = [
          await call('GET', `${TASKS}?limit=1`, { as }),
          await call('GET', `/workspaces/${workspaceId}/tasks?limit=1`, { as }),
        ];
        expect([current.status, named.status]).toEqual([200, 200]);
        expect(current.body).toEqual(named.body);
      }
    });

    it('W13, W14 401 without a credential that is known, also at an unknown address', async () => {
      const scheme = (authorization: string) => call('GET', TASKS, { as: null, headers: { authorization } });
      for (const as of [null, 'wsk_unknown', '']) await expectRefused(call('GET', TASKS, { as }), 401);
      await expectRefused(scheme(`Basic ${held.it.key}`), 401);
      await expectRefused(call('GET', '/nothing/here', { as: null }), 401);
      // The word Bearer is read in any case.
      expect((await scheme(`bearer ${held.it.key}`)).status).toBe(200);
    });

    it('W14, W26 403 for an unknown or foreign workspace, with key and token', async () => {
      for (const as of [held.it.key, held.it.token])
        await expectRefused(call('GET', '/workspaces/ws_of_others/tasks', { as }), 403, 'workspace_forbidden');
    });
  });

  it('W17 no answer lets a page of another origin use a key', async () => {
    const headers = { origin: 'https://example.com', 'access-control-request-method': 'GET' };
    for (const [method, as, status] of [
      ['OPTIONS', null, 401],
      ['OPTIONS', held.it.token, 405],
      ['GET', held.it.token, 200],
    ] as const) {
      const reply = await call(method, TASKS, { as, headers });
      expect([reply.status, reply.headers.get('access-control-allow-origin')]).toEqual([status, null]);
    }
  });

  it('W4, W5, W6 version 2 is served, also where none is named; 400 for any other', async () => {
    const list = (version: string) => call('GET', TASKS, { headers: { 'x-service-api-version': version } });
    const unnamed = await fetch(held.it.url + TASKS, { headers: { authorization: `Bearer ${held.it.token}` } });
    expect([(await list('2')).status, unnamed.status]).toEqual([200, 200]);
    for (const version of ['1', '3', 'two', '2.0']) await expectRefused(list(version), 400, 'unsupported_api_version');
  });

  describe('errors', () => {
    it('W25, W37, W38, W44, W46, W53, W63, W66, W71 404 for what is not there', async () => {
      const task = (await call('POST', BUGS, { body: { title: 'there' } })).body.taskId;
      const document = (await call('POST', DOCUMENTS, { body: { title: 'there' } })).body.documentId;
      for (const [method, path, body] of UNKNOWN)
        await expectRefused(call(method, path.replace('{task}', task).replace('{document}', document), { body }), 404);
    });

    it.each(Object.entries(FOR_PEOPLE))('W21, W26, W62, W63, W65 403 %s for an API key', async (errorCode, routes) => {
      for (const [method, path, body] of routes)
        await expectRefused(call(method, path, { as: held.it.key, body }), 403, errorCode);
    });

    it('W71 405 for another method, with Allow', async () => {
      const reply = await call('DELETE', TASKS);
      expect(reply).toMatchObject(failure(405, 'method_not_allowed'));
      expect(reply.headers.get('allow')).toBe('GET');
      const several = await call('DELETE', '/workspaces/current/pull-requests');
      expect(several.headers.get('allow')).toBe('GET, PATCH, POST');
    });

    it.each(['{', '', 'null', '[]', '"text"', '{"title":"x"', '{"title":"x","__proto__":{}}', '['.repeat(100)])(
      'W66, W67 400 for the malformed body %j',
      async (body) => {
        const reply = await call('POST', BUGS, { body });
        expect(reply).toMatchObject(failure(400, reply.body.errorCode));
        expect(['bad_request', 'validation_failed']).toContain(reply.body.errorCode);
      },
    );

    it('W7, W67 400 for a body that is not UTF-8 or no JSON, and for an address that cannot be decoded', async () => {
      await expectRefused(call('POST', BUGS, { body: Buffer.from([0x22, 0xff, 0x22]) }), 400, 'bad_request');
      const text = { body: '{"title":"x"}', headers: { 'content-type': 'text/plain' } };
      await expectRefused(call('POST', BUGS, text), 400, 'bad_request');
      await expectRefused(call('GET', '/workspaces/%zz/tasks'), 400, 'bad_request');
    });

    it('W11 413 for a body over 1 MiB', async () => {
      await expectRefused(call('POST', BUGS, { body: { title: 'x', description: 'y'.repeat(1_048_576) } }), 413);
    });
  });

  describe('W9 conditional requests, W10 pages', () => {
    it('W9, W36 every GET has an ETag; If-None-Match answers 304 without a body', async () => {
      for (const path of [TASKS, '/workspaces/current/pull-requests', '/workspaces/current/api-keys', DOCUMENTS]) {
        const first = await call('GET', path);
        const etag = first.headers.get('etag')!;
        expect(etag).toMatch(/^(W\/)?".+"$/);
        for (const given of [etag, `"other", ${etag}`, `W/${etag.replace(/^W\//, '')}`]) {
          const second = await call('GET', path, { headers: { 'if-none-match': given } });
          expect([second.status, second.text, second.headers.get('etag')]).toEqual([304, '', etag]);
        }
        expect((await call('GET', path, { headers: { 'if-none-match': '"other"' } })).status).toBe(200);
      }
    });

    it.each([
      ...['0', '101', '-1', '1.5', 'many', ''].map((limit) => `limit=${limit}`),
      ...['nonsense', 'MTIz', '%F0%9F%98%80'].map((cursor) => `cursor=${cursor}`),
    ])('W10 400 for %s', async (query) => {
      for (const path of [TASKS, DOCUMENTS, '/workspaces/current/pull-requests'])
        await expectRefused(call('GET', `${path}?${query}`), 400);
    });
  });
}

export function describeApiKeys(held: { readonly it: Target }): void {
  const { call, create: post } = requestsTo(held);
  const create = (description = unique('key')) => post('/api-keys', { description });
  const revoke = (apiKeyId: string) => call('DELETE', `/api-keys/${apiKeyId}`);
  const list = async () => (await call('GET', '/api-keys')).body.apiKeys as { apiKeyId: string; status: string }[];
  const countActive = async () => (await list()).filter(({ status }) => status === 'active').length;

  it('W19, W24 201 with the key and its secret, which no later answer shows', async () => {
    const description = unique('CI');
    const { secret, ...shown } = await create(`  ${description} `);
    expect(shown).toEqual({
      apiKeyId: ID,
      workspaceId: held.it.workspaceId,
      description,
      status: 'active',
      keyPrefix: TEXT,
      createdByUserId: TEXT,
      createdAt: TIME,
      lastUsedAt: null,
      revokedAt: null,
    });
    expect(secret.startsWith(shown.keyPrefix)).toBe(true);
    const listed = await call('GET', '/api-keys');
    expect(listed.text).not.toContain(secret);
    expect(listed.body.apiKeys).toContainEqual(shown);
    await revoke(shown.apiKeyId);
  });

  it('W22, W25 revoking takes effect immediately; W26 401 like an unknown key; the list keeps it as revoked', async () => {
    const { apiKeyId, secret: as } = await create();
    const use = (key: string) => ask(held.it, 'GET', TASKS, { as: key });
    expect((await use(as)).status).toBe(200);
    expect(await revoke(apiKeyId)).toMatchObject({ status: 204, text: '' });
    const after = await use(as);
    expect([after.status, after.body]).toEqual([401, (await use('wsk_unknown')).body]);
    const kept = (await list()).find((key) => key.apiKeyId === apiKeyId);
    expect(kept).toMatchObject({ status: 'revoked', revokedAt: TIME });
    expect((await revoke(apiKeyId)).status).toBe(204);
  });

  it('W15 a key reads and writes', async () => {
    const as = held.it.key;
    const made = await call('POST', '/bugs', { title: unique('by key') }, { as });
    const read = await call('GET', `/tasks/${made.body.taskId}`, undefined, { as });
    expect([made.status, read.status, read.body]).toEqual([201, 200, made.body]);
  });

  it('W20, W21, W26 at most 20 active keys, also of creations at the same time; revoking one makes room', async () => {
    const replies = await Promise.all(
      Array.from({ length: 25 }, () => call('POST', '/api-keys', { description: unique('race') })),
    );
    const made = replies.filter(({ status }) => status === 201).map(({ body }) => body.apiKeyId as string);
    expect(await countActive()).toBe(20);
    await expectRefused(call('POST', '/api-keys', { description: 'x' }), 409, 'api_key_limit_reached');
    await revoke(made.pop()!);
    made.push((await create()).apiKeyId);
    for (const apiKeyId of made) await revoke(apiKeyId);
  });

  describe.runIf(isEmbedded)('roles (needs tokens minted beside the API)', () => {
    const get = (as: string, path = '/workspaces/current/api-keys') => ask(held.it, 'GET', path, { as });

    it('W21 an admin manages keys; W26 403 forbidden for a plain member; W18 401 for an expired token', async () => {
      expect((await get(await tokenOf(held, 'admin'))).status).toBe(200);
      const member = await tokenOf(held, 'member');
      await expectRefused(get(member), 403);
      await expectRefused(call('POST', '/api-keys', { description: 'x' }, { as: member }), 403);
      expect((await get(member, TASKS)).status).toBe(200);
      await expectRefused(get(await tokenOf(held, 'owner', { ttl: 0 })), 401);
    });

    it("W3 a token without a workspace: 403 for current, its user's workspaces by id", async () => {
      const as = await tokenOf(held, 'owner', { workspaceId: null });
      for (const path of [TASKS, '/tasks/tsk_x/work-items', '/workspaces/ws_other/tasks'])
        await expectRefused(get(as, path), 403, 'workspace_forbidden');
      expect((await get(as, `/workspaces/${held.it.workspaceId}/tasks`)).status).toBe(200);
    });
  });
}
