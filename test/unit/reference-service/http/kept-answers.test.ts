import { expect, it, onTestFinished } from 'vitest';
import { createKeptAnswers } from '../../../../src/reference-service/http/kept-answers.ts';
import { NO_QUOTA, startWorkspaceService } from '../../../support/fakes/workspace-service.ts';

const ANSWER = { body: '{}', etag: '"x"' };

it('keeps an answer until the next commit', () => {
  let commits = 3;
  const kept = createKeptAnswers(() => commits);
  kept.keep('a', 3, ANSWER);
  expect([kept.find('a'), kept.find('b')]).toEqual([ANSWER, undefined]);
  commits += 1;
  expect(kept.find('a')).toBeUndefined();
});

it('does not keep what was read before a commit and is ready after it', () => {
  let commits = 0;
  const kept = createKeptAnswers(() => commits);
  commits += 1;
  kept.keep('a', 0, ANSWER);
  expect(kept.find('a')).toBeUndefined();
});

it('holds a bounded number of bounded answers', () => {
  const kept = createKeptAnswers(() => 0);
  kept.keep('large', 0, { ...ANSWER, body: 'x'.repeat(65_537) });
  expect(kept.find('large')).toBeUndefined();
  for (let n = 0; n < 600; n++) kept.keep(String(n), 0, ANSWER);
  expect([kept.find('511'), kept.find('512')]).toEqual([ANSWER, undefined]);
});

it('no read shows less than what was acknowledged before it, whoever else reads and writes', async () => {
  const running = await startWorkspaceService({ quota: NO_QUOTA });
  onTestFinished(() => running.close());
  const client = running.client();
  const task = async (taskId: string) => (await client.getTask({ taskId }, {})).body.title;
  await Promise.all(
    Array.from({ length: 20 }, async (_, at) => {
      const { taskId } = (await client.createBug({ body: { title: `${at}` } }, {})).body;
      for (let n = 0; n < 15; n++) {
        const title = `${at}.${n}`;
        await client.updateTask({ taskId, body: { title } }, {});
        expect(await Promise.all([task(taskId), task(taskId)])).toEqual([title, title]);
      }
    }),
  );
});

it('an answer that is kept has passed the checks of every request', async () => {
  const running = await startWorkspaceService({ quota: NO_QUOTA });
  onTestFinished(() => running.close());
  const { taskId } = (await running.client().createBug({ body: { title: 'x' } }, {})).body;
  const path = `${running.url}/workspaces/current/tasks/${taskId}`;
  const get = async (credential: string, headers: object = {}) =>
    (await fetch(path, { headers: { authorization: `Bearer ${credential}`, ...headers } })).status;
  expect([await get(running.apiKey), await get(running.apiKey), await get(running.oauthToken)]).toEqual([
    200, 200, 200,
  ]);
  const other = await running.service.addWorkspace();
  const userId = await running.service.addUser({ workspaceId: other, name: 'Eve', role: 'owner' });
  const foreign = await running.service.mintToken({ workspaceId: other, userId, role: 'owner', ttl: null });
  expect(await get(running.apiKey)).toBe(200);
  expect([await get('wsk_unknown'), await get(foreign.secret)]).toEqual([401, 404]);
  expect(await get(running.apiKey, { 'x-service-api-version': '3' })).toBe(400);
});
