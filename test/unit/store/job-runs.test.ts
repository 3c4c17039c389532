import { expect, onTestFinished, test } from 'vitest';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { readInstallationId } from '../../../src/store/installation.ts';
import { installationRuns, jobRuns } from '../../../src/store/job-runs.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

test('stores the last run of each job of a workspace, and replaces all of them', async () => {
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

test('stores the last runs of the jobs of the installation beside its other facts', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const memory = installationRuns(installation);
  expect(await memory.read()).toEqual(new Map());
  await memory.note('retention', 2);
  await memory.note('retention', 3);
  await memory.note('backup', 4);
  expect(await memory.read()).toEqual(
    new Map([
      ['backup', 4],
      ['retention', 3],
    ]),
  );
  await memory.replace(new Map([['retention', 5]]));
  expect(await memory.read()).toEqual(new Map([['retention', 5]]));
  await memory.replace(new Map());
  expect(await memory.read()).toEqual(new Map());
  expect(await readInstallationId(installation.query, systemRandom(), 'here')).toBe(installation.id);
});
