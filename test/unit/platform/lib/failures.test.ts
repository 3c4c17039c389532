import { expect, test } from 'vitest';
import { doAll } from '../../../../src/platform/lib/failures.ts';

const failing = (message: string) => async () => {
  throw new Error(message);
};

test('each step is done, in order, whatever failed before it', async () => {
  const done: number[] = [];
  const step = (number: number) => () => void done.push(number);
  await expect(doAll([step(1), failing('one'), step(2), failing('two'), step(3)])).rejects.toMatchObject({
    errors: [{ message: 'one' }, { message: 'two' }],
  });
  expect(done).toEqual([1, 2, 3]);
});

test('one failure is thrown as it is, and none where nothing fails', async () => {
  await expect(doAll([failing('alone')])).rejects.toThrow(/^alone$/);
  await doAll([() => 1]);
});
