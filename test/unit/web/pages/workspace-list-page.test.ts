import { expect, it } from 'vitest';
import type { ListedWorkspace } from '../../../../src/admin/workspace-list.ts';
import type { Visit } from '../../../../src/web/pages/page-content.ts';
import { createWorkspaceList } from '../../../../src/web/pages/workspace-list-page.ts';

const NONE = { waiting: 0, held: 0, quota: null };

/** Lists that are made when the test says so; the name of the only workspace counts them. */
function setUp() {
  const lists: PromiseWithResolvers<readonly ListedWorkspace[]>[] = [];
  let now = 0;
  const page = createWorkspaceList({
    list() {
      const next = Promise.withResolvers<readonly ListedWorkspace[]>();
      lists.push(next);
      return next.promise;
    },
  });
  const visit = {
    ...{ caller: { role: 'read', workspaces: null }, query: new Map<string, string>(), now: 0 },
    clock: { monotonic: () => now },
    process: { components: {}, configFault: null },
    clean: <Told>(told: Told) => told,
  } as unknown as Visit;
  return {
    lists,
    answer(at: number) {
      lists[at]?.resolve([{ name: `list-${at}`, verdict: 'ok', summary: 'all synced', ...NONE }]);
    },
    pass(milliseconds: number) {
      now += milliseconds;
    },
    async shown() {
      const { parts } = await page(visit);
      return /list-\d/.exec(parts.find(({ id }) => id === 'workspaces')?.body.text ?? '')?.[0];
    },
  };
}

it('is made once for all who ask at the same time, and serves them for some seconds', async () => {
  const { lists, answer, pass, shown } = setUp();
  const both = [shown(), shown()];
  answer(0);
  expect(await Promise.all(both)).toEqual(['list-0', 'list-0']);
  pass(2_000);
  expect(await shown()).toBe('list-0');
  expect(lists).toHaveLength(1);
});

it('that is older is shown while the next one is made, and not when it is much older', async () => {
  const { lists, answer, pass, shown } = setUp();
  const first = shown();
  answer(0);
  await first;
  pass(5_000);
  expect([await shown(), await shown(), lists.length]).toEqual(['list-0', 'list-0', 2]);
  answer(1);
  await lists[1]?.promise;
  expect(await shown()).toBe('list-1');
  pass(60_000);
  const late = shown();
  answer(2);
  expect(await late).toBe('list-2');
});

it('that cannot be made leaves the old one, and is tried again', async () => {
  const { lists, answer, pass, shown } = setUp();
  const first = shown();
  answer(0);
  await first;
  pass(5_000);
  expect(await shown()).toBe('list-0');
  lists[1]?.reject(new Error('the database is busy'));
  await expect(lists[1]?.promise).rejects.toThrow('busy');
  expect(await shown()).toBe('list-0');
  expect(lists).toHaveLength(3);
});
