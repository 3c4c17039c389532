import { expect, onTestFinished, test } from 'vitest';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { readInstallationId, UNFINISHED_COPY } from '../../../src/store/installation.ts';
import { openTestInstallation } from '../../support/store.ts';

test('an id is made once, and none where only a part of the rows has been copied', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const { query } = installation;
  await query.deleteFrom('installation').execute();
  const made = await readInstallationId(query, systemRandom(), 'here');
  expect(made).toMatch(/^[0-9a-f]{12}$/);
  expect(made).not.toBe(installation.id);
  expect(await readInstallationId(query, systemRandom(), 'here')).toBe(made);
  await query.insertInto('installation').values({ name: UNFINISHED_COPY, value: '' }).execute();
  await expect(readInstallationId(query, systemRandom(), 'here')).rejects.toMatchObject({ code: 'copy_unfinished' });
});
