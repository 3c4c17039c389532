import { Agent, request as httpRequest } from 'node:http';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { NO_QUOTA, startWorkspaceService, type TestService } from '../../support/fakes/workspace-service.ts';
import { drawn } from '../../support/harness/depth.ts';

/** This mark stands in every text of the one workspace, and must reach no caller of the other. */
const MARK = 'belongs-to-the-one-workspace';

/** Texts that leave a path segment, end a query, or are read as something else by some program. */
const TRICKS =
  `.. . %2e%2e %2E %2f %5c / // %00 %0d%0a %25 %252f %C0%AF %ff % %zz ; ? ?x= & * ' "%20or%201=1 -- %F0%9F%98%80 %E2%80%AE
  %EF%BC%8F + : @ null undefined __proto__ constructor 0 -1 1e9 current ${'x'.repeat(65)} ${'x'.repeat(600)}`.split(
    /\s+/,
  );

type Workspace = { readonly workspaceId: string; readonly token: string };
type Things = Readonly<Record<'taskId' | 'documentId' | 'workItemId' | 'fileId' | 'cursor', string>>;

/** One arbitrary for all draws, because making it takes longer than to draw from it. */
const ANY_TEXT = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 });

/** Two workspaces in one service: the things in the one, and a caller of the other who knows every id of it. */
export function describeIsolation(): void {
  const agent = new Agent({ keepAlive: true });
  let site: TestService;
  let stranger: Workspace;
  let theirs: Things;
  let own: Things;
  let before: string[];

  beforeAll(async () => {
    site = await startWorkspaceService({ quota: NO_QUOTA });
    const workspaceId = await site.service.addWorkspace();
    const userId = await site.service.addUser({ workspaceId, name: 'Eve', role: 'owner' });
    const { secret } = await site.service.mintToken({ workspaceId, userId, role: 'owner', ttl: null });
    stranger = { workspaceId, token: secret };
    theirs = await fill({ workspaceId: site.workspaceId, token: site.oauthToken }, MARK);
    own = await fill(stranger, 'own');
    before = await snapshot();
  });
  afterAll(async () => {
    agent.destroy();
    await site.close();
  });

  /** One request whose path goes out as it is: no `..` is resolved, nothing is encoded on the way. */
  const send = (method: string, path: string, { token, body }: { token?: string; body?: unknown } = {}) =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const { hostname, port } = new URL(site.url);
      const headers = {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      };
      const request = httpRequest({ agent, hostname, port, method, path: `/api/v1${path}`, headers }, (response) => {
        const pieces: Buffer[] = [];
        response.on('data', (piece: Buffer) => pieces.push(piece));
        response.on('end', () => resolve({ status: response.statusCode!, text: Buffer.concat(pieces).toString() }));
      });
      request.on('error', reject);
      request.end(body === undefined ? undefined : JSON.stringify(body));
    });

  const fill = async ({ token }: Workspace, mark: string): Promise<Things> => {
    const post = async (path: string, body: unknown) => JSON.parse((await send('POST', path, { token, body })).text);
    const { taskId } = await post('/workspaces/current/bugs', { title: mark });
    const { workItemId } = await post(`/tasks/${taskId}/work-items`, { url: `https://example.com/${mark}` });
    const { documentId } = await post(`/tasks/${taskId}/documents`, { title: mark, content: mark });
    await post('/workspaces/current/documents', { title: mark });
    const file = { filename: `${mark}.png`, contentType: 'image/png', size: mark.length };
    const ticket = await post('/files/upload-url', file);
    const put = { method: 'PUT', headers: ticket.headers, body: mark };
    expect((await fetch(ticket.uploadUrl, put)).status).toBe(204);
    const page = await send('GET', '/workspaces/current/documents?limit=1', { token });
    return {
      taskId,
      workItemId,
      documentId,
      fileId: ticket.assetUrl.split('/').at(-1),
      cursor: JSON.parse(page.text).nextCursor,
    };
  };

  /** All that the one workspace holds, as its owner sees it. */
  const snapshot = () =>
    Promise.all(
      [
        '/workspaces/current/tasks?all=true',
        '/workspaces/current/documents?includeContent=true',
        `/tasks/${theirs.taskId}/work-items`,
        `/tasks/${theirs.taskId}/documents`,
        '/workspaces/current/pull-requests',
        '/workspaces/current/pull-request-records',
        `/workspaces/current/assets/${theirs.fileId}`,
      ].map(async (path) => {
        const { status, text } = await send('GET', path, { token: site.oauthToken });
        expect(status).toBe(200);
        return text;
      }),
    );

  const workspace = () => fc.constantFrom('current', stranger.workspaceId, site.workspaceId);
  const anyId = () => fc.constantFrom(...Object.values(theirs), ...Object.values(own), site.workspaceId);
  const trick = fc.constantFrom(...TRICKS);
  /** Ids of both sides, tricks, and both mixed. */
  const mangled = () =>
    fc.oneof(
      anyId(),
      trick,
      fc.array(fc.oneof(anyId(), trick), { minLength: 2, maxLength: 4 }).map((parts) => parts.join('')),
      ANY_TEXT.map((text) => encodeURIComponent(text.toWellFormed())),
      anyId().map((id) => id.toUpperCase()),
      anyId().map((id) => id.slice(0, -1)),
      anyId().map((id) => Array.from(id, (one) => `%${one.charCodeAt(0).toString(16)}`).join('')),
    );

  const paths = () =>
    fc
      .tuple(workspace(), mangled(), mangled())
      .chain(([named, one, other]) =>
        fc.constantFrom(
          `/workspaces/${named}/documents/${one}`,
          `/workspaces/${named}/tasks/${one}`,
          `/workspaces/${named}/tasks/${one}/documents`,
          `/workspaces/${named}/tasks/${one}/documents/${other}`,
          `/workspaces/${named}/tasks/${one}/work-items/${other}`,
          `/workspaces/${named}/assets/${one}`,
          `/workspaces/${one}/documents`,
          `/workspaces/${one}/assets/${other}`,
          `/workspaces/${named}/documents?cursor=${one}`,
          `/workspaces/${named}/documents?taskId=${one}&createdByUserId=${other}`,
          `/workspaces/${named}/documents?title=${one}&includeContent=true`,
          `/tasks/${one}/documents`,
          `/tasks/${one}/documents/${other}`,
          `/tasks/${one}/work-items`,
          `/uploads/${one}?expires=9999999999999&signature=${other}`,
          `/${one}/${other}`,
        ),
      );

  const bodies = () =>
    fc.oneof(
      fc.record({ documentId: mangled() }),
      fc.record({ title: fc.constant('x'), taskId: mangled() }),
      fc.record({ title: fc.constant('x'), content: fc.constant('y') }),
      fc.constant({ ops: [{ kind: 'replace_text', target: MARK, replacement: 'gone' }] }),
      fc.constant({ status: 'cancelled' }),
    );

  /** No answer tells anything of the other side, and none is a failure of the service. */
  const check = ({ status, text }: { status: number; text: string }) => {
    expect(status).toBeLessThan(500);
    expect(text).not.toContain(MARK);
    expect(status < 400 || JSON.parse(text).code === status).toBe(true);
  };

  it.each([
    ['documents/{documentId}', 'documentId'],
    ['tasks/{taskId}', 'taskId'],
    ['tasks/{taskId}/documents', 'taskId'],
    ['tasks/{taskId}/work-items', 'taskId'],
    ['assets/{fileId}', 'fileId'],
  ] as const)('W1, W26 %s of another workspace: 404 through the own one, 403 through theirs', async (path, name) => {
    const { token } = stranger;
    const address = path.replace(/\{\w+\}/, theirs[name]);
    expect((await send('GET', `/workspaces/current/${address}`, { token })).status).toBe(404);
    expect((await send('GET', `/workspaces/${site.workspaceId}/${address}`, { token })).status).toBe(403);
    const same = path.replace(/\{\w+\}/, own[name]);
    expect((await send('GET', `/workspaces/current/${same}`, { token })).status).toBe(200);
  });

  it("W1 a document is not attached to another workspace's task, nor theirs to an own one", async () => {
    const { token } = stranger;
    const attach = (taskId: string, documentId: string) =>
      send('POST', `/tasks/${taskId}/documents`, { token, body: { documentId } });
    expect((await attach(theirs.taskId, own.documentId)).status).toBe(404);
    expect((await attach(own.taskId, theirs.documentId)).status).toBe(404);
    const body = { title: 'x', taskId: theirs.taskId };
    expect((await send('POST', '/workspaces/current/documents', { token, body })).status).toBe(400);
    expect(await snapshot()).toEqual(before);
  });

  it('the mark is in what its owner reads, so that it would be detected elsewhere', () => {
    expect(before.join('')).toContain(MARK);
  });

  // Last, since they may well change what is their own.
  it('W1 no id, path or cursor reads anything of another workspace', async () => {
    let reached = 0;
    await fc.assert(
      fc.asyncProperty(paths(), async (path) => {
        const answer = await send('GET', path, { token: stranger.token });
        check(answer);
        if (answer.status === 200) reached++;
      }),
      { numRuns: drawn(2_000) },
    );
    // Some of it must come through to their own things, or nothing was tried.
    expect(reached).toBeGreaterThan(drawn(2_000) / 40);
  });

  it('W1 nor does any change anything there', async () => {
    const methods = fc.constantFrom('POST', 'PUT', 'PATCH', 'DELETE');
    await fc.assert(
      fc.asyncProperty(methods, paths(), bodies(), async (method, path, body) => {
        check(await send(method, path, { token: stranger.token, body }));
      }),
      { numRuns: drawn(1_500) },
    );
    expect(await snapshot()).toEqual(before);
  });

  it('W14 nobody reads anything without a credential', async () => {
    await fc.assert(
      fc.asyncProperty(paths(), async (path) => {
        const answer = await send('GET', path);
        check(answer);
        expect(answer.status).toBeGreaterThanOrEqual(400);
      }),
      { numRuns: drawn(500) },
    );
  });
}
