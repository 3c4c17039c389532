import { expect, it } from 'vitest';
import { blankEntity } from '../../../src/store/entities.ts';
import { findChange } from '../../../src/store/outbox-rows.ts';
import { configureLinks, linksAreIdempotent, noteRecordsListed } from '../../../src/store/server-capabilities.ts';
import { lastLinksRead, noteLinksRead } from '../../../src/store/workspace-reads.ts';
import { differs } from '../../support/changes.ts';
import { openTestStore } from '../../support/intake.ts';

it('takes links for idempotent where the configuration says so, or the server records pull requests', async () => {
  const { query } = await openTestStore();
  expect(await linksAreIdempotent(query)).toBe(false);
  await configureLinks(query, true);
  expect(await linksAreIdempotent(query)).toBe(true);
  await configureLinks(query, false);
  expect(await linksAreIdempotent(query)).toBe(false);
  await noteRecordsListed(query, 1);
  expect(await linksAreIdempotent(query)).toBe(true);
});

it('releases the links that waited for the links of their task, and those of no other task', async () => {
  const { query } = await openTestStore();
  for (const taskId of ['t1', 't2'])
    await differs(query, blankEntity(`link:a>${taskId}`, 'link', { task_id: taskId, desired: '{}' }), {
      not_before: 9,
    });
  const READ = { revision: 5, sentAt: 7 };
  expect(await lastLinksRead(query, 't1')).toBeUndefined();
  await noteLinksRead(query, 't1', READ);
  expect([await lastLinksRead(query, 't1'), await lastLinksRead(query, 't2')]).toEqual([READ, undefined]);
  expect(await findChange(query, 'link:a>t1')).toMatchObject({ not_before: 0 });
  expect(await findChange(query, 'link:a>t2')).toMatchObject({ not_before: 9 });
});
