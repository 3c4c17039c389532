import { afterEach, describe, expect, it } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { editPull } from '../support/harness/edit-pull.ts';
import type { PullSetting } from '../support/vendors/github-payloads.ts';

let world: World;
afterEach(() => world.close());

const edit = (setting: PullSetting) => editPull(world, setting);

async function open(
  documents: 'attach' | 'off',
): Promise<{ taskId: string; other: string; documentId: string; url: string }> {
  world = await createWorld({ config: { rules: { documents } } });
  const task = async (title: string) => (await world.people.createBug({ body: { title } }, {})).body.taskId;
  const [taskId, other] = [await task('One'), await task('Two')];
  const { documentId } = (await world.people.createDocument({ body: { title: 'Plan' } }, {})).body;
  const { origin } = new URL((await world.partition().status()).address);
  return { taskId, other, documentId, url: `${origin}/documents/${documentId}` };
}

const attachedTo = async (documentId: string) => (await world.people.getDocument({ documentId }, {})).body.taskId;

describe('a document that a pull request names', () => {
  it('is attached to its task, once, and stays so', async () => {
    const { taskId, documentId, url } = await open('attach');
    await edit({ title: 'BUG-1', body: `See ${url}.` });
    expect(await attachedTo(documentId)).toBe(taskId);
    const asked = (await world.requests()).received;
    await edit({ title: 'BUG-1', body: `See ${url}.`, labels: ['x'] });
    expect((await world.requests()).received).toBe(asked + 1);
    await edit({ title: 'BUG-1' });
    expect(await attachedTo(documentId)).toBe(taskId);
  });

  it('is not taken away from another task', async () => {
    const { other, documentId, url } = await open('attach');
    await world.people.attachDocument({ taskId: other, body: { documentId } }, {});
    await edit({ title: 'BUG-1', body: url });
    expect(await attachedTo(documentId)).toBe(other);
  });

  it('waits for a task, and one that does not exist holds up nothing', async () => {
    const { taskId, documentId, url } = await open('attach');
    await edit({ title: 'No task yet', body: `${url} ${url}x` });
    expect(await attachedTo(documentId)).toBe(null);
    await edit({ title: 'BUG-1', body: `${url}x and ${url}` });
    expect(await attachedTo(documentId)).toBe(taskId);
    expect((await world.partition().status()).changes.byState).toEqual({ pending: 0, sending: 0, unknown: 0, held: 0 });
  });

  it('is left alone where nothing says so', async () => {
    const { documentId, url } = await open('off');
    await edit({ title: 'BUG-1', body: url });
    expect(await attachedTo(documentId)).toBe(null);
  });
});
