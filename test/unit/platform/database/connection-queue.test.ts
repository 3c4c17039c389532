import { expect, it } from 'vitest';
import { createConnectionQueue } from '../../../../src/platform/database/connection-queue.ts';
import { yieldToEventLoop } from '../../../../src/platform/lib/concurrency.ts';

it('admits callers one at a time in the order of their arrival, and at once if none waits', async () => {
  const queue = createConnectionQueue();
  const order: string[] = [];
  const work = async (name: string) => {
    await queue.enter();
    order.push(name);
    await yieldToEventLoop();
    order.push('ended');
    queue.leave();
  };
  await Promise.all(['1', '2', '3', '4'].map(work));
  await work('5');
  expect(order.join(' ')).toBe('1 ended 2 ended 3 ended 4 ended 5 ended');
});
