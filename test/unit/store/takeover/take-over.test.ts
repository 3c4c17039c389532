import { copyFileSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../../../src/lib/database/open.ts';
import { systemRandom } from '../../../../src/lib/random.ts';
import type { Steps } from '../../../../src/lib/steps.ts';
import { type Installation, openInstallation } from '../../../../src/store/installation.ts';
import type { Tables } from '../../../../src/store/tables.ts';
import { OLD_MIGRATIONS } from '../../../../src/store/takeover/old-migrations.ts';
import { keptName, takeOver } from '../../../../src/store/takeover/take-over.ts';
import { folderOfTest } from '../../../support/folder.ts';

/**
 * Files of one workspace each, with rows in nearly every table. Written by the daemons of these commits: the last one
 * before step 6, and the last one that had a file for each workspace, with all migrations of that layout.
 */
const WRITTEN_BY = { '78207dc': fixture('78207dc'), d4e0fcf: fixture('d4e0fcf') } as const;
const OLD = WRITTEN_BY['78207dc'];

function fixture(commit: string): Buffer {
  return gunzipSync(readFileSync(join(import.meta.dirname, `../../../fixtures/databases/${commit}.db.gz`)));
}

const TABLES = [
  ...(['meta', 'inbox', 'items', 'mentions', 'item_names', 'tasks', 'gateway_tokens', 'entities'] as const),
  ...(['outbox', 'fetches', 'polls', 'backfills', 'notices', 'ledger', 'job_runs', 'scope_names'] as const),
];

async function folderWith(...workspaces: readonly string[]) {
  return folderOf(OLD, ...workspaces);
}

async function folderOf(old: Buffer, ...workspaces: readonly string[]) {
  const path = folderOfTest('take-over');
  const fileOf = (workspace: string) => join(path, `${workspace}.db`);
  for (const workspace of workspaces) writeFileSync(fileOf(workspace), old);
  const open = async (steps?: Steps): Promise<Installation> => {
    const installation = await openInstallation(path, { random: systemRandom(), ...(steps && { steps }) });
    onTestFinished(() => installation.close());
    return installation;
  };
  return { path, fileOf, open };
}

/** What the old version would read, after the migrations of its layout. */
async function rowsBefore(path: string, old = OLD) {
  const file = join(path, 'reference');
  writeFileSync(file, old);
  const database = await openDatabase<Tables>({ file, migrations: OLD_MIGRATIONS });
  const rows = new Map<string, unknown[]>();
  for (const table of TABLES) rows.set(table, await database.query.selectFrom(table).selectAll().execute());
  await database.close();
  return rows;
}

async function rowsOf(installation: Installation, workspace: string) {
  const { query } = await installation.store(workspace);
  const rows = new Map<string, Record<string, unknown>[]>();
  for (const table of TABLES) {
    const read = await query.selectFrom(table).selectAll().execute();
    rows.set(
      table,
      read.map((row) => Object.fromEntries(Object.entries(row).filter(([column]) => column !== 'workspace'))),
    );
  }
  return rows;
}

describe('the file of a workspace', () => {
  it.each(Object.entries(WRITTEN_BY))('of %s is taken over with every row as it stood', async (_commit, old) => {
    const { path, fileOf, open } = await folderOf(old, 'acme');
    const before = await rowsBefore(path, old);
    const installation = await open();
    const { rows } = await takeOver(installation, { workspace: 'acme', file: fileOf('acme') });
    const after = await rowsOf(installation, 'acme');
    for (const table of TABLES) {
      expect([table, after.get(table)?.length]).toEqual([table, before.get(table)?.length]);
      expect(after.get(table)).toEqual(
        expect.arrayContaining((before.get(table) as object[]).map((row) => expect.objectContaining(row))),
      );
    }
    expect(rows).toBe([...after.values()].reduce((sum, each) => sum + each.length, 0));
    expect(readFileSync(keptName(fileOf('acme'))).length).toBeGreaterThan(100_000);
  });

  it('is replaced by one that an older version refuses', async () => {
    const { fileOf, open } = await folderWith('acme');
    await takeOver(await open(), { workspace: 'acme', file: fileOf('acme') });
    await expect(openDatabase({ file: fileOf('acme'), migrations: OLD_MIGRATIONS })).rejects.toMatchObject({
      message: expect.stringContaining('rows_are_in_worksync_db'),
    });
  });

  it('is taken over once', async () => {
    const { fileOf, open } = await folderWith('acme');
    const installation = await open();
    await takeOver(installation, { workspace: 'acme', file: fileOf('acme') });
    const after = await rowsOf(installation, 'acme');
    expect(await takeOver(installation, { workspace: 'acme', file: fileOf('acme') })).toEqual({ rows: 0 });
    expect(await rowsOf(installation, 'acme')).toEqual(after);
  });

  it('keeps to itself beside those of others, whose deliveries get numbers of their own', async () => {
    const { fileOf, open } = await folderWith('acme', 'beta');
    const installation = await open();
    for (const workspace of ['acme', 'beta']) await takeOver(installation, { workspace, file: fileOf(workspace) });
    const [first, second] = [await rowsOf(installation, 'acme'), await rowsOf(installation, 'beta')];
    // The highest number that a delivery of the first file ever had.
    const OFFSET = 195;
    for (const [table, rows] of second) expect([table, rows.length]).toEqual([table, first.get(table)?.length]);
    const ids = (rows: typeof first) => rows.get('inbox')?.map(({ id }) => id as number) as number[];
    expect(ids(second)).toEqual(ids(first).map((id) => id + OFFSET));
    const asked = (rows: typeof first) => rows.get('fetches')?.map((row) => row['delivery_id'] as number) as number[];
    expect(asked(second)).toEqual(asked(first).map((id) => id + OFFSET));
    const waiting = (rows: typeof first) =>
      rows.get('outbox')?.flatMap((row) => JSON.parse(row['waiting'] as string) as { id: number; at: number }[]) ?? [];
    expect(waiting(first).length).toBeGreaterThan(0);
    expect(waiting(second)).toEqual(waiting(first).map(({ id, at }) => ({ id: id + OFFSET, at })));
    const named = (rows: typeof first) =>
      rows.get('mentions')?.map((row) => JSON.parse(row['reason'] as string) as { delivery?: number }) ?? [];
    expect(named(second)).toEqual(
      named(first).map((reason) => (reason.delivery ? { ...reason, delivery: reason.delivery + OFFSET } : reason)),
    );
    // The next delivery of any of them is new.
    const { query } = await installation.store('gamma');
    const row = { connection: 'x', delivery_key: 'y', source: 'webhook', event: 'z', received_at: 1 } as const;
    await query
      .insertInto('inbox')
      .values({ ...row, state: 'pending', body: null, unpacked_length: null, reason: null, settled_at: null })
      .execute();
    expect((await query.selectFrom('inbox').select('id').executeTakeFirstOrThrow()).id).toBe(2 * OFFSET + 1);
  });

  it.each(['before', 'after'] as const)('is whole in one place when the process ends %s any commit', async (moment) => {
    const expected = await rowsBefore((await folderWith()).path);
    for (let killAt = 1; ; killAt += 1) {
      const { fileOf, open } = await folderWith('acme');
      let commits = 0;
      const steps: Steps = {
        reached(step, when) {
          if (step !== 'commit' || when !== moment) return;
          commits += 1;
          if (commits === killAt) throw new Error('killed');
        },
      };
      const survived = await open(steps)
        .then((installation) => takeOver(installation, { workspace: 'acme', file: fileOf('acme') }))
        .then(
          () => true,
          () => false,
        );
      const again = await open();
      await takeOver(again, { workspace: 'acme', file: fileOf('acme') });
      const after = await rowsOf(again, 'acme');
      for (const table of TABLES)
        expect([table, after.get(table)?.length]).toEqual([table, expected.get(table)?.length]);
      expect(existsSync(keptName(fileOf('acme')))).toBe(true);
      if (survived) break;
    }
  });

  it('goes on where the process ended between the new name and the stub', async () => {
    const { fileOf, open } = await folderWith('acme');
    const installation = await open();
    await takeOver(installation, { workspace: 'acme', file: fileOf('acme') });
    rmSync(fileOf('acme'));
    expect(await takeOver(installation, { workspace: 'acme', file: fileOf('acme') })).toEqual({ rows: 0 });
    expect(existsSync(fileOf('acme'))).toBe(true);
    // And between the rows and the new name.
    renameSync(keptName(fileOf('acme')), fileOf('acme'));
    expect(await takeOver(installation, { workspace: 'acme', file: fileOf('acme') })).toEqual({ rows: 0 });
    expect(existsSync(keptName(fileOf('acme')))).toBe(true);
  });

  it('that was put back beside its rows is refused by name', async () => {
    const { fileOf, open } = await folderWith('acme');
    const installation = await open();
    await takeOver(installation, { workspace: 'acme', file: fileOf('acme') });
    copyFileSync(keptName(fileOf('acme')), fileOf('acme'));
    await expect(takeOver(installation, { workspace: 'acme', file: fileOf('acme') })).rejects.toMatchObject({
      code: 'database_failed',
      message: expect.stringContaining(fileOf('acme')),
      hint: expect.stringContaining('Move'),
    });
  });

  it.each([100, 4_096, 40_000])('that was cut off after %i bytes is no stub', async (length) => {
    const { fileOf, open } = await folderWith();
    writeFileSync(fileOf('acme'), OLD.subarray(0, length));
    await expect(takeOver(await open(), { workspace: 'acme', file: fileOf('acme') })).rejects.toMatchObject({
      code: 'database_corrupt',
    });
  });

  it('that is damaged stays as it is, and takes nothing in', async () => {
    const { fileOf, open } = await folderWith();
    const damaged = Buffer.from(OLD);
    damaged.fill(0x5a, 8_192, 200_000);
    writeFileSync(fileOf('acme'), damaged);
    const installation = await open();
    await expect(takeOver(installation, { workspace: 'acme', file: fileOf('acme') })).rejects.toMatchObject({
      code: 'database_corrupt',
    });
    expect(await installation.query.selectFrom('workspaces').selectAll().execute()).toEqual([]);
    expect(existsSync(keptName(fileOf('acme')))).toBe(false);
  });
});
