import { existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { auditLog } from '../../../src/admin/access/audit.ts';
import { alone, backUp, backUpTo, forget, restore, tryRestore } from '../../../src/admin/installation/data.ts';
import {
  addGatewayToken,
  listGatewayTokens,
  liveTokens,
  revokeGatewayToken,
} from '../../../src/store/access/gateway-tokens.ts';
import { addSession } from '../../../src/store/access/session-rows.ts';
import { appendDeliveries } from '../../../src/store/deliveries/append-deliveries.ts';
import {
  acquireDataFolder,
  INSTALLATION_FILE,
  type Installation,
} from '../../../src/store/installation/installation.ts';
import { localTime, register, takeLeases } from '../../../src/store/installation/leases.ts';
import { PULL_REQUESTS_READ, TASKS_READ, writeMeta } from '../../../src/store/meta.ts';
import { tasksWereRead } from '../../../src/store/workspace/workspace-reads.ts';
import { numbersOf, type Scope } from '../../../src/store/workspace-scope.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { sampleOf } from '../../support/harness/depth.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

async function dataFolder() {
  const path = folderOfTest('upkeep');
  const within = async <Result>(work: (installation: Installation) => Promise<Result>): Promise<Result> => {
    const installation = await openTestInstallation({ file: join(path, INSTALLATION_FILE) });
    try {
      return await work(installation);
    } finally {
      await installation.close();
    }
  };
  const fact = (workspace: string, value: string) =>
    within(async (installation) => writeMeta((await installation.store(workspace)).query, 'fact', value));
  const facts = () =>
    within(async ({ query }) => {
      const rows = await query
        .selectFrom('meta')
        .innerJoin('workspaces', 'workspaces.id', 'meta.workspace')
        .select(['workspaces.name', 'value'])
        .where('meta.name', '=', 'fact')
        .execute();
      return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
    });
  return { path, backup: join(path, 'monday.backup'), within, fact, facts };
}

const delivery = (key: string) => ({
  ...{ connection: 'github', key, source: 'webhook' as const, event: 'push' },
  body: Buffer.from('{}'),
});

describe('a backup', () => {
  it('is a sound copy that nobody else may read, made beside a running daemon', async () => {
    const { path, backup, within, fact } = await dataFolder();
    await fact('acme', 'a');
    await within(() => backUp({ data: path }, backup));
    expect(statSync(backup).mode & 0o777).toBe(0o600);
    await expect(backUp({ data: path }, backup)).rejects.toMatchObject({ code: 'conflict' });
    const nowhere = backUp({ data: path }, join(path, 'missing/a.db'));
    await expect(nowhere).rejects.toMatchObject({ code: 'not_found', message: expect.stringContaining('no folder') });
    const unwritable = backUp({ data: path }, join(path, 'n'.repeat(250)));
    await expect(unwritable).rejects.toMatchObject({
      code: 'data_folder_unusable',
      hint: expect.stringContaining('-'),
    });
  });

  it('is written to a stream, as to a file, and leaves no copy behind', async () => {
    const { path, backup, fact } = await dataFolder();
    await fact('acme', 'a');
    await backUp({ data: path }, backup);
    const files = readdirSync(path);
    const stream = async () => {
      const streamed = new PassThrough();
      const [bytes] = await Promise.all([
        buffer(streamed),
        backUpTo({ data: path }, streamed).finally(() => streamed.end()),
      ]);
      return bytes.equals(readFileSync(backup));
    };
    const database = join(path, INSTALLATION_FILE);
    const ofKilled = `${database}.1.unfinished`;
    writeFileSync(ofKilled, 'left');
    utimesSync(ofKilled, 0, 0);
    expect(await Promise.all([stream(), stream()])).toEqual([true, true]);
    expect(readdirSync(path)).toEqual(files);
    writeFileSync(database, readFileSync(database).fill(1, 3 * 4_096, 5 * 4_096));
    await expect(stream()).rejects.toMatchObject({ code: 'database_corrupt' });
    expect(readdirSync(path)).toEqual(files);
  });

  it('brings back everything; sessions end, and each database before is kept', async () => {
    const { path, backup, within, fact, facts } = await dataFolder();
    await fact('acme', 'before');
    await within(({ query }) =>
      addSession(query, {
        ...{ digest: 'aa', role: 'admin', workspaces: null, openedBy: null },
        ...{ createdAt: 1, seenAt: 1, expiresAt: 9e15 },
      }),
    );
    await backUp({ data: path }, backup);
    await fact('acme', 'after');
    const { kept } = await restore({ data: path }, backup);
    expect(existsSync(kept as string)).toBe(true);
    expect(await facts()).toEqual({ acme: 'before' });
    expect(await within(({ query }) => query.selectFrom('sessions').selectAll().execute())).toEqual([]);
    expect((await restore({ data: path }, backup)).kept).toBe(`${kept}.2`);
  });

  it.each(sampleOf(['acme', undefined], 2))(
    'has the daemon read all that the workspace holds before it writes: %s',
    async (only) => {
      const { path, backup, within } = await dataFolder();
      const isRead = (installation: Installation) =>
        installation.store('acme').then(({ query }) => tasksWereRead(query));
      await within(async (installation) => {
        const { query } = await installation.store('acme');
        for (const list of [TASKS_READ, PULL_REQUESTS_READ]) await writeMeta(query, list, '1');
      });
      expect(await within(isRead)).toBe(true);
      await backUp({ data: path }, backup);
      await restore({ data: path }, backup, only);
      expect(await within(isRead)).toBe(false);
    },
  );

  it('brings back one workspace and leaves the others as they are', async () => {
    const { path, backup, within, fact, facts } = await dataFolder();
    const append = (workspace: string, key: string) =>
      within(async (installation) => appendDeliveries((await installation.store(workspace)).query, [delivery(key)], 1));
    await fact('acme', 'before');
    await append('acme', 'a1');
    await fact('beta', 'before');
    await backUp({ data: path }, backup);
    for (const workspace of ['acme', 'beta']) await fact(workspace, 'after');
    await append('beta', 'b1');
    expect(await restore({ data: path }, backup, 'acme')).toMatchObject({ kept: null });
    expect(await facts()).toEqual({ acme: 'before', beta: 'after' });
    const keys = await within(({ query }) => query.selectFrom('inbox').select(['id', 'delivery_key']).execute());
    expect(keys.map(({ delivery_key }) => delivery_key).sort()).toEqual(['a1', 'b1']);
    await fact('gamma', 'after');
    await expect(restore({ data: path }, backup, 'gamma')).rejects.toMatchObject({ code: 'not_found' });
    expect(await facts()).toMatchObject({ gamma: 'after' });
  });

  it.each(sampleOf(['acme', undefined], 2))('revokes the gateway tokens that come with it: %s', async (only) => {
    const { path, backup, within, fact } = await dataFolder();
    await fact('acme', 'a');
    const inAcme = <Result>(work: (query: Scope) => Promise<Result>) =>
      within(async (installation) => work((await installation.store('acme')).query));
    await inAcme((query) => addGatewayToken(query, { id: 't', digest: 'd', description: '', now: 1 }));
    await backUp({ data: path }, backup);
    await inAcme((query) => revokeGatewayToken(query, 't', 2));
    await restore({ data: path }, backup, only);
    expect(await within(({ query }) => liveTokens(query))).toEqual(new Map());
    expect(await inAcme(listGatewayTokens)).toMatchObject([{ id: 't', revokedAt: expect.any(Number) }]);
  });

  it('can be tried first: nothing is changed, and the plan names what would be', async () => {
    const { path, backup, within, fact, facts } = await dataFolder();
    await fact('acme', 'before');
    await backUp({ data: path }, backup);
    await within(async (installation) => {
      const { query } = await installation.store('beta');
      await appendDeliveries(query, [delivery('b1')], 1);
      await addGatewayToken(query, { id: 't', digest: 'd', description: '', now: 1 });
    });
    const before = readdirSync(path).sort();
    const plan = await tryRestore({ data: path }, backup);
    expect(plan).toMatchObject({
      ...{ backup: { workspaces: [{ name: 'acme' }] }, kept: join(path, 'worksync.db.before-restore') },
      present: { workspaces: [{ name: 'acme' }, { name: 'beta', deliveries: 1, tokens: 1 }], sessions: 0 },
    });
    expect(readdirSync(path).sort()).toEqual([...before, 'worksync.lock'].sort());
    expect(await facts()).toEqual({ acme: 'before' });
    await expect(tryRestore({ data: path }, backup, 'beta')).rejects.toMatchObject({ code: 'not_found' });
    // A daemon uses the data folder.
    const { release } = acquireDataFolder(path);
    expect(await tryRestore({ data: path }, backup)).toEqual(plan);
    await expect(restore({ data: path }, backup)).rejects.toMatchObject({ code: 'locked' });
    release();
  });
});

const REPLICA = { id: 'replica', incarnation: 'first', address: 'http://replica', about: '{}' };

it('forgetting a workspace deletes all its rows and none of others', async () => {
  const { path, within, fact, facts } = await dataFolder();
  for (const workspace of ['acme', 'beta']) await fact(workspace, workspace);
  await within(async (installation) => {
    const many = Array.from({ length: 2_500 }, (_, index) => delivery(String(index)));
    for (const workspace of ['acme', 'beta'])
      await appendDeliveries((await installation.store(workspace)).query, many, 1);
    const numbers = await numbersOf(installation.query, ['acme', 'beta']);
    await register(installation.query, REPLICA, localTime({ now: () => 1 }), 1);
    await takeLeases(installation.query, REPLICA.incarnation, numbers);
  });
  const who = { actor: 'command ann', clock: createTravellingClock() };
  expect(await alone({ data: path }, (installation) => forget(installation, 'acme', who))).toBe(2_501);
  const { entries } = await alone({ data: path }, ({ query }) =>
    auditLog(query, { workspaces: null, since: null, before: null, limit: 10 }, 0),
  );
  expect(entries).toMatchObject([{ action: 'forget', actor: 'command ann', workspace: 'acme', count: 2_501 }]);
  expect(await within(({ query }) => query.selectFrom('leases').select('epoch').execute())).toHaveLength(1);
  expect(await facts()).toEqual({ beta: 'beta' });
  const left = await within(({ query }) => query.selectFrom('inbox').select('workspace').distinct().execute());
  expect(left).toHaveLength(1);
  await expect(alone({ data: path }, (installation) => forget(installation, 'acme', who))).rejects.toMatchObject({
    code: 'usage',
    message: expect.stringContaining('there are: beta'),
  });
});
