import { expect, test } from 'vitest';
import { createQueue } from '../../../../src/platform/lib/queue.ts';

/** Lets everything that is resolved go on. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('one has its turn at a time, in the order in which they came', async () => {
  const queue = createQueue();
  const order: number[] = [];
  let inside = 0;
  let most = 0;
  const work = async (name: number) => {
    await queue.enter();
    inside += 1;
    most = Math.max(most, inside);
    await settled();
    order.push(name);
    inside -= 1;
    queue.leave();
  };
  await Promise.all(Array.from({ length: 20 }, (_, name) => work(name)));
  expect(most).toBe(1);
  expect(order).toEqual(Array.from({ length: 20 }, (_, name) => name));
});

test('each turn wakes one of those who wait, and no other', async () => {
  const queue = createQueue();
  await queue.enter();
  let woken = 0;
  for (let each = 0; each < 5; each++) void queue.enter().then(() => woken++);
  queue.leave();
  await settled();
  expect(woken).toBe(1);
  queue.leave();
  await settled();
  expect(woken).toBe(2);
});

test('who comes when nobody waits any more is let in at once', async () => {
  const queue = createQueue();
  let turns = 0;
  for (let each = 0; each < 3; each++) {
    await queue.enter();
    turns += 1;
    queue.leave();
  }
  expect(turns).toBe(3);
});
