import { describe, expect, it, onTestFinished } from 'vitest';
import type { Connection } from '../../../src/connectors/connector.ts';
import { type ErrorCode, SyncError } from '../../../src/model/errors.ts';
import type { Item } from '../../../src/model/item.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { type LogFields, silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { saveItem } from '../../../src/store/items/items.ts';
import { type NoticeRow, noticesOf, requestNotice } from '../../../src/store/items/notices.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import type { ActiveConnection } from '../../../src/sync/workspace-context.ts';
import { createWriteBack } from '../../../src/sync/write-back/write-back.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { workspaceContext } from '../../support/harness/workspace-context.ts';
import { itemRow, pull } from '../../support/rows/items.ts';

const HOUR = 3_600_000;
const MUST_HAVE_ARRIVED = 40_000;
const SHA = 'a'.repeat(40);
const ITEM = pull({ headSha: SHA, repoName: 'acme/api' });
const WANTED = { comment: 'Linked to BUG-1.', status: `${SHA} success linked to BUG-1` };

/**
 * Opens the write-back of two connections, of which the second has the item. Its commits fail while `isFull`, and each write throws
 * the next of `failures`.
 */
async function open() {
  const stored = await openTestStore();
  const clock = createTravellingClock();
  const world = {
    ...{ isFull: false, workspaceId: 'w1' as string | undefined },
    ...{ failures: [] as SyncError[], writes: [] as string[], log: [] as string[] },
  };
  const commit: Store['commit'] = (work) =>
    world.isFull ? Promise.reject(new SyncError('disk_full', 'full')) : stored.commit(work);
  const write = async (text: string) => {
    const failure = world.failures.shift();
    if (failure) throw failure;
    world.writes.push(text);
  };
  const logTo = (level: string) => (fields: LogFields) =>
    void world.log.push(`${level} ${String(fields['kind'])} ${String(fields['item'])}`);
  const logger = { ...silentLogger, debug: logTo('debug'), info: logTo('info'), warn: logTo('warn') };
  const connection: Pick<Connection, 'comment' | 'close' | 'status'> = {
    async comment(_, { marker }) {
      await write(`comment ${marker}`);
      return { author: 'worksync', text: '' };
    },
    status: { right: 'a right', write: () => write('status') },
  };
  const reference = ({ kind, key }: Item) => ({ kind, key, locator: {} });
  const common = { connector: { reference }, writeBack: { comment: true, close: false, status: true } };
  const connections = [
    { ...common, name: 'gitlab', connection: {} },
    { ...common, name: 'github', connection, covers: () => true },
  ] as unknown as ActiveConnection[];
  const start = () => {
    const random = { ...systemRandom(), float: () => 1 };
    const context = workspaceContext({
      store: { ...stored, commit },
      clock,
      logger,
      random,
      connections,
      workspaceId: async () => world.workspaceId,
    });
    const writeBack = createWriteBack(context);
    writeBack.start();
    onTestFinished(() => writeBack.stop());
    return writeBack;
  };
  const fields = JSON.stringify({ item: ITEM });
  await saveItem(stored.query, itemRow(ITEM.key, { kind: 'pull_request', fields }), 1);
  const request = (kind: 'comment' | 'status', wanted: string | null) =>
    requestNotice(stored.query, { itemKey: ITEM.key, kind, connection: 'github', wanted, now: clock.now() });
  for (const kind of ['comment', 'status'] as const) await request(kind, WANTED[kind]);
  const states = async () => {
    const rows = await noticesOf(stored.query, ITEM.key);
    return Object.fromEntries(rows.map(({ kind, state }) => [kind, state])) as Partial<
      Record<NoticeRow['kind'], NoticeRow['state']>
    >;
  };
  return { ...{ world, start, states }, pass: (ms: number) => clock.advance(ms) };
}

describe('write-back', () => {
  it('writes a comment only once the id of the workspace is known, and a status without it', async () => {
    const { world, start, pass } = await open();
    world.workspaceId = undefined;
    start();
    await pass(0);
    expect(world.writes).toEqual(['status']);
    world.workspaceId = 'w1';
    await pass(30_000);
    expect(world.writes).toEqual(['status', 'comment <!-- worksync:w1:tasks -->']);
  });

  it('sends nothing before the begin of the write is stored', async () => {
    const { world, start, pass } = await open();
    world.failures.push(...['comment', 'status'].map(() => new SyncError('unreachable', 'refused')));
    start();
    await pass(0);
    world.isFull = true;
    await pass(HOUR);
    expect(world.writes).toEqual([]);
    world.isFull = false;
    await pass(HOUR);
    expect(world.writes).toHaveLength(2);
  });

  it('tries refused writes again at the start, also if the database fails at first', async () => {
    const { world, start, states, pass } = await open();
    world.failures.push(...['comment', 'status'].map(() => new SyncError('refused', 'HTTP 422')));
    const first = start();
    await pass(0);
    await first.stop();
    expect(await states()).toEqual({ comment: 'refused', status: 'refused' });
    world.isFull = true;
    start();
    await pass(1_000);
    world.isFull = false;
    await pass(60_000);
    expect(await states()).toEqual({ comment: 'done', status: 'done' });
  });

  it('tries writes without a right again each hour, by a commit that another owner of the workspace would refuse', async () => {
    const { world, start, states, pass } = await open();
    world.failures.push(...['comment', 'status'].map(() => new SyncError('forbidden', 'HTTP 403')));
    start();
    await pass(0);
    world.isFull = true;
    await pass(HOUR + 60_000);
    expect(await states()).toEqual({ comment: 'refused', status: 'refused' });
    world.isFull = false;
    await pass(60_000);
    expect(await states()).toEqual({ comment: 'done', status: 'done' });
  });

  it.each<[ErrorCode, 'at once' | 'once the first must have arrived']>([
    ['unreachable', 'at once'],
    ['refused', 'at once'],
    ['conflict', 'at once'],
    ['server_failed', 'once the first must have arrived'],
    ['outcome_unknown', 'once the first must have arrived'],
  ])('repeats a write after a restart: %s, %s', async (code, when) => {
    const { world, start, pass } = await open();
    world.failures.push(...['comment', 'status'].map(() => new SyncError(code, 'no')));
    const first = start();
    await pass(0);
    await first.stop();
    start();
    await pass(1_000);
    expect(world.writes).toHaveLength(when === 'at once' ? 2 : 0);
    await pass(MUST_HAVE_ARRIVED);
    expect(world.writes).toHaveLength(2);
  });

  it('logs the name of the item, and warns once of statuses without a right', async () => {
    const { world, start, pass } = await open();
    world.failures.push(...Array.from({ length: 4 }, () => new SyncError('forbidden', 'HTTP 403')));
    start();
    await pass(0);
    for (const _ of [1, 2]) await pass(HOUR + 60_000);
    expect(world.log).toEqual(
      ['warn comment', 'warn status', 'warn comment', 'debug status', 'info comment', 'info status'].map(
        (line) => `${line} acme/api#1`,
      ),
    );
  });
});
