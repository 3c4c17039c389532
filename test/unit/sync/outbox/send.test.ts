import { expect, test } from 'vitest';
import type { SendContext, Slot } from '../../../../src/sync/outbox/outbox-context.ts';
import type { PreparedRequest } from '../../../../src/sync/outbox/request.ts';
import { sendRequest } from '../../../../src/sync/outbox/send.ts';
import { createWorkspaceClient } from '../../../../src/workspace-api/typed-client.ts';

const SLOT = {} as Slot;

/** What reaches the wire of this request. */
async function sent(action: PreparedRequest['action'], parts: Partial<PreparedRequest>) {
  const requests: object[] = [];
  const client = createWorkspaceClient<SendContext>({
    workspaceId: 'current',
    async send({ method, path, query, body }, { slot, traceparent }) {
      expect([slot, traceparent]).toEqual([SLOT, 'trace']);
      requests.push({ method, path: query ? `${path}?${query}` : path, ...(body !== undefined && { body }) });
      return { status: 200, headers: {}, body: Buffer.from('null') };
    },
  });
  const prepared = { action, body: {}, taskId: null, ...parts } as PreparedRequest;
  // What comes back is not what the contract promises: that is the client's affair.
  await sendRequest(client, prepared, { slot: SLOT, traceparent: 'trace' }).catch(() => undefined);
  return requests;
}

test.each<
  [action: PreparedRequest['action'], parts: Partial<PreparedRequest>, method: string, path: RegExp, body?: object]
>([
  ['read-tasks', {}, 'GET', /\/tasks\?.*all=true/],
  ['read-tasks', { body: { cursor: 'c', began: 1, seen: [] } }, 'GET', /\/tasks\?all=true&cursor=c$/],
  ['read-tasks', { body: { limit: 5_000, first: 50 } }, 'GET', /\/tasks\?all=true&limit=5000$/],
  ['read-task', { taskId: 't1' }, 'GET', /\/tasks\/t1$/],
  ['read-pull-requests', {}, 'GET', /\/pull-request-records\?limit=100$/],
  ['read-pull-requests', { body: { cursor: 'c' } }, 'GET', /\/pull-request-records\?limit=100&cursor=c$/],
  ['read-pull-requests', { body: { limit: 5_000 } }, 'GET', /\/pull-request-records\?limit=5000$/],
  ['read-records', { body: { headBranch: 'b' } }, 'GET', /\/pull-request-records\?limit=100&headBranch=b$/],
  ['read-links', { taskId: 't1' }, 'GET', /\/tasks\/t1\/work-items$/],
  ['read-document', { body: { documentId: 'd1' } }, 'GET', /\/documents\/d1$/],
  ['attach-document', { taskId: 't1', body: { documentId: 'd1' } }, 'POST', /t1/, { documentId: 'd1' }],
  ['record-pull-request', { body: { title: 'a' } }, 'POST', /\/pull-request-records$/, { title: 'a' }],
  ['add-link', { taskId: 't1', body: { url: 'u' } }, 'POST', /\/tasks\/t1\/work-items$/, { url: 'u' }],
  ['remove-link', { taskId: 't1', body: { workItemId: 'w1' } }, 'DELETE', /\/tasks\/t1\/work-items\/w1$/],
  ['create-task', { body: { kind: 'idea', title: 'a' } }, 'POST', /\/ideas$/, { title: 'a' }],
  ['create-task', { body: { kind: 'bug', title: 'a' } }, 'POST', /\/bugs$/, { title: 'a' }],
  ['create-task', { body: { title: 'a' } }, 'POST', /\/bugs$/, { title: 'a' }],
])('%s of %j', async (action, parts, method, path, body) => {
  const [request, ...others] = await sent(action, parts);
  expect(others).toEqual([]);
  expect(request).toEqual({ method, path: expect.stringMatching(path), ...(body && { body }) });
});
