import { expect, onTestFinished, test } from 'vitest';
import { bumpClockEra, readClockEra } from '../../../src/store/clock-changes.ts';
import { openTestInstallation } from '../../support/store.ts';
import { withoutTable } from '../../support/without-table.ts';

test('each time that the clock was set begins another era, which is stored or fails', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const eras = [await readClockEra(installation.query)];
  for (const _ of 'xx') {
    await bumpClockEra(installation);
    eras.push(await readClockEra(installation.query));
  }
  expect(eras).toEqual([0, 1, 2]);
  await withoutTable(installation.query, 'installation', () => expect(bumpClockEra(installation)).rejects.toThrow());
});
