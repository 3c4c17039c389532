import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../src/lib/database/open.ts';
import { prepareNext } from '../../../src/outbox/prepare.ts';
import { deleteTombstones } from '../../../src/store/deletions.ts';
import { findEntity, forgetOrBury } from '../../../src/store/entities.ts';
import { INSTALLATION_MIGRATIONS } from '../../../src/store/installation-migrations.ts';
import { noteLinksRead } from '../../../src/store/link-reads.ts';
import type { Schema } from '../../../src/store/tables.ts';
import { scopeOf } from '../../../src/store/workspace-scope.ts';
import { folderOfTest } from '../../support/folder.ts';
import { newPlace } from '../../support/store-place.ts';

test('a link and its lost request of the version before are older than every answer, and are settled as new ones are', async () => {
  const file = newPlace(join(folderOfTest('migrations'), 'test.db'));
  const earlier = Object.fromEntries(Object.entries(INSTALLATION_MIGRATIONS).filter(([each]) => each < '011'));
  const before = await openDatabase<Schema>({ file, migrations: earlier });
  const entity = 'link:jira:cloud:issue:1>t1';
  const ofLink = { workspace: 3, entity, kind: 'link' } as const;
  await before.query
    .insertInto('entities')
    .values({ ...ofLink, item_key: 'jira:cloud:issue:1', task_id: 't1', desired: '{"url":"u"}', known_at: 5 } as never)
    .execute();
  const sent = JSON.stringify({
    action: 'add-link',
    body: { url: 'u' },
    known: '{"url":"u"}',
    taskId: 't1',
    sentAt: 5,
  });
  await before.query
    .insertInto('outbox')
    .values({
      ...{ ...ofLink, lane: 'link', state: 'pending', since: 1, due: 1, not_before: 0, attempts: 1 },
      ...{ weight: 1, waiting: '[]', sent },
    })
    .execute();
  await before.close();

  const { query, close } = await openDatabase<Schema>({ file, migrations: INSTALLATION_MIGRATIONS });
  onTestFinished(close);
  const scope = scopeOf(query, 3);
  const row = await findEntity(scope, entity);
  expect(row).toMatchObject({ revision: 0, desired: '{"url":"u"}', known_at: 5 });
  const read = await prepareNext(scope, { now: 100_000, onlyReads: false });
  expect(read).toMatchObject({ action: 'read-links', revision: 1 });
  await noteLinksRead(scope, 't1', { revision: 1, sentAt: 100_000 });
  expect(await prepareNext(scope, { now: 100_000, onlyReads: false })).toMatchObject({ entity, open: true });
  // Nothing was said of it since: it leaves no tombstone.
  if (row) await forgetOrBury(scope, row);
  expect(await findEntity(scope, entity)).toBeUndefined();
  expect(await deleteTombstones(scope, 100_000, 9)).toBe(0);
});
