import { expect, test } from 'vitest';
import { createPostponed, DELAY } from '../../../src/admin/postponed.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';

function setUp() {
  const clock = createTravellingClock();
  const postponed = createPostponed(clock);
  let done = 0;
  const action = { question: 'retry', asked: {}, count: 2, actor: 'command ann', auditRow: 1 } as const;
  const add = () =>
    postponed.add(action, async () => {
      done++;
    });
  return { clock, postponed, action, add, done: () => done };
}

test('an action is done ten seconds later, and shown with what is left until then', async () => {
  const { clock, postponed, action, add, done } = setUp();
  postponed.start();
  const now = clock.now();
  expect(add()).toEqual({ id: '1', ...action, askedAt: now, at: now + DELAY, remaining: DELAY });
  await clock.advance(4_000);
  add();
  expect(postponed.list().map(({ id, remaining }) => [id, remaining])).toEqual([
    ['1', 6_000],
    ['2', 10_000],
  ]);
  await clock.advance(6_000);
  expect([done(), postponed.list().map(({ id }) => id)]).toEqual([1, ['2']]);
  // Too late.
  expect(postponed.take('1')).toBeUndefined();
});

test('one that was undone, or whose daemon ended, is not done', async () => {
  const { clock, postponed, add, done } = setUp();
  postponed.start();
  const { id } = add();
  expect(postponed.take(id)).toMatchObject({ id, count: 2 });
  expect(postponed.take(id)).toBeUndefined();
  add();
  await postponed.stop();
  expect(postponed.list()).toEqual([]);
  await clock.advance(60_000);
  expect(done()).toBe(0);
  expect(add).toThrow(expect.objectContaining({ code: 'not_running' }));
});

test('nothing is taken where no daemon runs, and not without end where one does', () => {
  const { postponed, add } = setUp();
  expect(add).toThrow(expect.objectContaining({ code: 'not_running' }));
  postponed.start();
  for (let asked = 0; asked < 100; asked++) add();
  expect(add).toThrow(expect.objectContaining({ code: 'conflict' }));
});
