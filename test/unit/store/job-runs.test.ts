import { expect, test } from 'vitest';
import { jobRuns } from '../../../src/store/job-runs.ts';
import { openTestStore } from '../../support/intake.ts';

test('the runs of jobs are remembered', async () => {
  const store = await openTestStore();
  const memory = jobRuns(store);
  expect(await memory.read()).toEqual(new Map());

  await memory.note('sweep.github', 2);
  await memory.note('retention', 3);
  expect(await memory.read()).toEqual(
    new Map([
      ['sweep.github', 2],
      ['retention', 3],
    ]),
  );
  await memory.replace(new Map([['retention', 4]]));
  expect(await memory.read()).toEqual(new Map([['retention', 4]]));
  await memory.replace(new Map());
  expect(await memory.read()).toEqual(new Map());
});
