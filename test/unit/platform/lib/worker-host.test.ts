import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../../src/platform/lib/clock.ts';
import { createWorkerHost, OverBudget } from '../../../../src/platform/lib/worker-host.ts';

/** Real threads: `support/fakes/hungry-thread.ts` takes what it is told to take. */
function openHost(idle?: number) {
  const program = new URL('../../../support/fakes/hungry-thread.ts', import.meta.url);
  const host = createWorkerHost({ program, clock: systemClock(), memory: 64, ...(idle && { idle }) });
  onTestFinished(() => host.close());
  return host;
}

const ample = { cpu: 60_000, wall: 60_000 };

/** Threads of this process that run. */
function threads(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'MessagePort').length;
}

test('work is done one after the other, and whoever waits gets the answer to what they asked', async () => {
  const host = openHost();
  const asked = ['a', { b: 1 }, Buffer.from('c')];
  const answers = await Promise.all(asked.map((each) => host.run(each, ample)));
  expect(answers.slice(0, 2)).toEqual(['a', { b: 1 }]);
  expect(Buffer.from(answers[2] as Uint8Array).toString()).toBe('c');
});

test.each([
  ['time', { cpu: 200, wall: 60_000 }],
  ['time', { cpu: 60_000, wall: 200 }],
  ['memory', ample],
] as const)('what takes too much %s ends with its thread, and the next work is done', async (what, budget) => {
  const host = openHost();
  const [hungry, next] = [host.run(what, budget), host.run('next', ample)];
  const error = await hungry.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(OverBudget);
  expect((error as OverBudget).what).toBe(what);
  expect(await next).toBe('next');
});

test('what fails in the thread is told, and is no matter of a budget', async () => {
  const host = openHost();
  await expect(host.run('fail', ample)).rejects.toThrow('as it was told');
  expect(await host.run('next', ample)).toBe('next');
});

test('the thread ends when it has nothing to do', async () => {
  const before = threads();
  const host = openHost(50);
  await host.run('work', ample);
  await expect.poll(threads).toBe(before);
  expect(await host.run('more', ample)).toBe('more');
});
