import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { sql } from 'kysely';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import type { Steps } from '../../../src/platform/lib/telemetry.ts';
import { addAudit } from '../../../src/store/access/audit-rows.ts';
import { COPIED_TABLES, copyStore, giveUpCopy, type StoreCopy } from '../../../src/store/copy/copy-store.ts';
import { openInstallationFile, openTables } from '../../../src/store/installation/installation.ts';
import { countsOf } from '../../../src/store/status/counts.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { storePlace } from '../../support/postgres/store-place.ts';
import { dumpStore, fillStore } from '../../support/rows/filled-store.ts';

type Opened = Awaited<ReturnType<typeof openTables>>;

const folder = () => folderOfTest('copy');

async function opened(file: string, steps?: Steps): Promise<Opened> {
  const database = await openTables({ file, ...(steps && { steps }) });
  onTestFinished(() => database.close());
  return database;
}

/** A file of SQLite with rows in each table. */
async function filled(rows: number): Promise<Opened> {
  const file = join(folder(), 'source.db');
  await (await openInstallationFile({ file, random: systemRandom() })).close();
  const source = await opened(file);
  await source.commit((transaction) => fillStore(transaction, rows));
  return source;
}

/** Where nothing is yet: of the database that this project of tests is about. */
function emptyPlace(): Promise<string> {
  return storePlace(join(folder(), `${randomUUID()}.db`));
}

function copying(source: Opened, target: Opened, more: Partial<StoreCopy> = {}): Promise<unknown> {
  const asItIs: Pick<StoreCopy, 'carry' | 'done' | 'tell'> = {
    carry: (_table, row) => row,
    done: async () => undefined,
    tell: () => undefined,
  };
  return copyStore({ source, target, ...asItIs, ...more });
}

/** Without the letter that PostgreSQL cannot hold. */
function portable(dump: object): object {
  return JSON.parse(JSON.stringify(dump).replaceAll(String.raw`\u0000`, String.raw`\ufffd`));
}

describe('a copy', () => {
  it('holds every row and what follows from it, there and back again', async () => {
    const source = await filled(7);
    const there = await opened(await emptyPlace());
    await copying(source, there);
    const back = await opened(join(folder(), 'back.db'));
    await copying(there, back);
    expect(portable(await dumpStore(back.query))).toEqual(portable(await dumpStore(source.query)));
    const [wanted, present] = await Promise.all([source, back].map(({ query }) => countsOf(query, [1, 2, 3])));
    for (const workspace of [1, 2, 3]) expect(present!(workspace)).toEqual(wanted!(workspace));
    expect(wanted!(1).items).toBeGreaterThan(0);
  });

  it('numbers the next rows after the last ones, also where those are gone', async () => {
    const source = await filled(5);
    await source.query.deleteFrom('audit').where('id', '=', 5).execute();
    const target = await opened(await emptyPlace());
    await copying(source, target);
    const audit = { at: 1, workspace: null, actor: 'a', action: 'b', subject: null, count: null, details: null };
    expect(await addAudit(target.query, { ...audit, outcome: 'done' })).toBe(6);
    expect(await target.query.insertInto('workspaces').values({ name: 'new' }).returning('id').execute()).toEqual([
      { id: 6 },
    ]);
  });

  it('goes on where it was killed, before or after any of its commits', async () => {
    const source = await filled(3);
    // More than one chunk.
    await source.commit((transaction) =>
      sql`insert into tasks (workspace, task_id, key, source, status, fields, seen_at)
        with recursive n (i) as (select 1 union all select i + 1 from n where i < 600)
        select 1, 'task' || i, 'OPS-' || i, 's', 's', '{}', i from n`.execute(transaction),
    );
    const file = await emptyPlace();
    let kills = 0;
    for (let isDone = false; !isDone; kills++) {
      const edge = kills % 2 === 0 ? 'after' : 'before';
      let commits = edge === 'after' ? 1 : 2;
      let isOpen = false;
      const target = await openTables({
        file,
        steps: {
          reached(_kind, at) {
            if (isOpen && at === edge && --commits === 0) throw new Error('killed');
          },
        },
      });
      isOpen = true;
      try {
        await copying(source, target);
        isDone = true;
      } catch (error) {
        expect(error).toMatchObject({ message: 'killed' });
      } finally {
        await target.close();
      }
      if (kills > 0 && !isDone) {
        const asDaemon = openInstallationFile({ file, random: systemRandom() });
        const refused = asDaemon.then(
          async (database) => {
            await database.close();
            // Killed after its last commit, it is a database of its own.
            isDone = true;
          },
          (error: unknown) => expect(error).toMatchObject({ code: 'copy_unfinished' }),
        );
        await refused;
      }
    }
    expect(kills).toBeGreaterThan(COPIED_TABLES.length);
    const target = await opened(file);
    expect(portable(await dumpStore(target.query))).toEqual(portable(await dumpStore(source.query)));
  });

  it('goes into no database that has rows, nor into the middle of another copy unless that is given up', async () => {
    const [one, other] = [await filled(2), await filled(2)];
    const target = await opened(await emptyPlace());
    const killed = { done: () => Promise.reject(new Error('killed')) };
    await expect(copying(one, target, killed)).rejects.toThrow('killed');
    await expect(copying(other, target)).rejects.toMatchObject({ code: 'conflict', message: /unfinished copy/ });
    expect(await giveUpCopy(target)).toBe(2 * COPIED_TABLES.length);
    await copying(one, target);
    await expect(copying(other, target)).rejects.toMatchObject({ code: 'conflict', message: /rows of its own/ });
    await expect(giveUpCopy(target)).rejects.toMatchObject({ code: 'conflict' });
  });

  it('is refused where the source changed after its row was copied, and names the table', async () => {
    const source = await filled(2);
    const target = await opened(await emptyPlace());
    const killed = { done: () => Promise.reject(new Error('killed')) };
    await expect(copying(source, target, killed)).rejects.toThrow('killed');
    await source.query.updateTable('items').set({ seen_at: 5 }).where('key', 'is not', null).execute();
    await expect(copying(source, target)).rejects.toMatchObject({ code: 'conflict', message: /differ in items$/ });
    await expect(openInstallationFile({ file: target.file, random: systemRandom() })).rejects.toBeDefined();
  });
});
