import { afterAll, describe, expect, it, vi } from 'vitest';
import { checkAll } from '../../src/admin/status/check.ts';
import { describeExplained } from '../../src/cli/items/show-items.ts';
import { SyncError } from '../../src/model/errors.ts';
import { readMeta, WORKSPACE_ID } from '../../src/store/meta.ts';
import { createTracker, issue, pullRequest, type Tracker, tell } from '../support/fakes/tracker.ts';
import { createWorld, WEBHOOK_SECRET, type World, type WorldOptions } from '../support/harness/daemon.ts';

let world: World;
let tracker: Tracker;
/** The configuration of the world, which scenarios share as long as they want the same. */
let present = '';
/** The first issue, and the first pull request, of the present scenario. */
let number = 0;
/** Tasks before the present scenario. */
let base = 0;
/** Deliveries that were ignored before it. */
let before = 0;
const ignored = () =>
  world.partition().store.query.selectFrom('inbox').select('reason').where('state', '=', 'ignored').execute();
const bug = (own: number) => `BUG-${base + own}`;
afterAll(() => world.close());

async function open(
  writeBack: object | undefined,
  rules: object = { triage: [{ create: 'bug' }] },
  options?: Pick<WorldOptions, 'faults' | 'quota' | 'http'> & {
    readonly connect?: Tracker['connector']['connect'];
    readonly mayCover?: Tracker['connector']['mayCover'];
  },
): Promise<void> {
  const wanted = JSON.stringify([writeBack, rules]);
  if (options || wanted !== present) await openWorld({ rules, ...connectionsOf(writeBack) }, options);
  present = options ? '' : wanted;
  tracker.comments.clear();
  for (const list of [tracker.closed, tracker.statuses, tracker.writes, tracker.fetches, tracker.failures])
    list.length = 0;
  tracker.unanswered = 0;
  base = (await world.tasks()).length;
  before = (await ignored()).length;
  number += 10;
}

async function openWorld(config: Record<string, unknown>, options: Parameters<typeof open>[2] = {}): Promise<void> {
  await world?.close();
  tracker = createTracker();
  const { connect = tracker.connector.connect, mayCover = () => true } = options;
  world = await createWorld({ connectors: [{ ...tracker.connector, connect, mayCover }], ...options, config });
}

function connectionsOf(writeBack: object | undefined) {
  return {
    connections: { tracker: { connector: 'tracker', webhookSecrets: WEBHOOK_SECRET, poll: 'off', writeBack } },
  };
}

async function say(number: number, fields: object = {}): Promise<void> {
  await world.clock.advance(1_000);
  const item = issue(number, { updatedAt: world.clock.now(), ...fields });
  expect(await tell(world.daemon().address, item, { secret: WEBHOOK_SECRET })).toBe(202);
  await world.settled();
}

async function detected(): Promise<void> {
  await world.settled();
  const waiting = () =>
    world
      .partition()
      .store.query.selectFrom('notices')
      .select('kind')
      .where('state', '=', 'waiting')
      .executeTakeFirst();
  await world.until(async () => (await waiting()) === undefined);
}

const commentOn = (number: number) => [...(tracker.comments.get(issue(number).key) ?? [])];
const finish = async (status: 'completed' | 'cancelled' | 'open') => {
  for (const { taskId } of (await world.tasks()).slice(base))
    await world.people.updateTask({ taskId, body: { status } }, {});
};

const ALL = { comment: true, close: true, status: true };

it.each(['comment', 'close', 'status'] as const)(
  'writes nothing that waits once its setting %s is removed',
  async (removed) => {
    await open(ALL, undefined, {});
    tracker.failures.push(...Array.from({ length: 100 }, () => new SyncError('server_failed', 'down')));
    await say(number);
    await tell(world.daemon().address, pullRequest(number, { updatedAt: world.clock.now() }), {
      secret: WEBHOOK_SECRET,
    });
    await finish('completed');
    const kinds = async () => {
      const notices = world.partition().store.query.selectFrom('notices').select('kind').where('state', '=', 'waiting');
      return new Set((await notices.execute()).map(({ kind }) => kind));
    };
    await world.until(async () => (await kinds()).size === 3);
    await world.restart({ config: connectionsOf({ ...ALL, [removed]: false }) });
    tracker.failures.length = 0;
    await detected();
    await world.clock.advance(3_600_000);
    const written = new Set(tracker.writes.map((write) => write.split(' ')[0]));
    expect(written).toEqual(new Set(Object.keys(ALL).filter((kind) => kind !== removed)));
  },
);

it.each([
  ['the item was moved', { containerId: '9', movedAway: 'Operations' }, true],
  ['the scope no longer contains its project', {}, false],
])('writes nothing outside the scope, and again inside it: %s', async (_, moved, isStillNamed) => {
  const followed = new Set(['Engine']);
  await open(ALL, undefined, { mayCover: (name) => followed.has(name) });
  await say(1);
  await detected();
  if (!isStillNamed) followed.clear();
  await say(1, moved);
  await world.people.createBug({ body: { title: 'Another' } }, {});
  if (!isStillNamed) await say(1, { title: 'Also BUG-2' });
  await finish('completed');
  await world.clock.advance(3_600_000);
  await detected();
  expect(tracker.writes).toEqual([`comment ${issue(1).key}`]);
  const { items } = await world.ask('explain', { target: 'ENG-1' });
  expect(describeExplained({ task: null, statuses: [], items, isCut: false })).toContain(
    'write-back: nothing is written: the item is outside the scope of its connection',
  );
  followed.add('Engine');
  await say(1, { title: 'It is back: BUG-2' });
  await detected();
  expect(tracker.writes.slice(1).sort()).toEqual([`close ${issue(1).key}`, `comment ${issue(1).key}`]);
});

describe('a comment', () => {
  it('names the tasks once their links stand, and is written once for each text, in place', async () => {
    await open({ comment: true });
    await say(number);
    await detected();
    const workspace = await readMeta(world.partition().store.query, WORKSPACE_ID);
    expect(commentOn(number)).toEqual([[`<!-- worksync:${workspace}:tasks -->`, `Linked to ${bug(1)}.`]]);
    await world.bug('Another');
    for (const title of [`Also ${bug(2)}`, `Also ${bug(2)}!`]) await say(number, { title });
    await world.restart();
    await detected();
    expect(tracker.writes).toEqual([`comment ${issue(number).key}`, `comment ${issue(number).key}`]);
    expect(commentOn(number).map(([, text]) => text)).toEqual([`Linked to ${bug(1)} and ${bug(2)}.`]);
  });

  it('is written once all links stand, also where they come one after the other', async () => {
    const written: number[] = [];
    await open(
      { comment: true },
      {},
      {
        quota: { burst: 3, burstWindow: 60_000 },
        faults: {
          async before({ method, url }) {
            if (method === 'POST' && url.endsWith('/work-items')) written.push(tracker.writes.length);
            return undefined;
          },
        },
      },
    );
    const titles = ['One', 'Two', 'Three', 'Four', 'Five', 'Six'];
    for (const title of titles) await world.bug(title);
    await say(number, { title: titles.map((_, index) => `BUG-${index + 1}`).join(', ') });
    await detected();
    expect(written).toEqual([0, 0, 0, 0, 0, 0]);
    expect(tracker.writes).toEqual([`comment ${issue(number).key}`]);
    expect(commentOn(number)).toEqual([
      [expect.anything(), `Linked to ${bug(1)}, ${bug(2)}, ${bug(3)}, ${bug(4)}, ${bug(5)}, and ${bug(6)}.`],
    ]);
  });

  it('without the right is tried again each hour, and status says so meanwhile', async () => {
    await open({ comment: true });
    const archived = () => new SyncError('forbidden', 'Repository was archived so is read-only.', { status: 403 });
    tracker.failures.push(archived(), archived());
    const left = () => tracker.failures.length;
    await say(number);
    await detected();
    await world.clock.advance(300_000);
    expect(left()).toBe(1);
    const { verdict, causes, connections } = await world.partition().status();
    expect([verdict, causes.map(({ code }) => code)]).toEqual(['degraded', ['writes_refused']]);
    const writeRefusal = 'forbidden: Repository was archived so is read-only.';
    expect(connections).toContainEqual(expect.objectContaining({ refusedWrites: 1, writeRefusal }));
    for (const hours of [1, 2]) {
      await world.clock.advance(3_600_000);
      await detected();
      expect([hours, left(), commentOn(number).length]).toEqual([hours, 0, hours - 1]);
    }
    expect((await world.partition().status()).verdict).toBe('ok');
  });

  it('is searched no earlier by the successor of a killed process', async () => {
    await open({ comment: true });
    tracker.unanswered = 1;
    await say(number);
    await world.until(() => tracker.unanswered === 0);
    await world.kill()();
    const from = world.clock.elapsed();
    await detected();
    expect(world.clock.elapsed() - from).toBeGreaterThanOrEqual(40_000);
    expect(tracker.writes).toEqual([`comment ${issue(number).key}`]);
  });

  it('waits as long as the vendor wants to be left alone, whatever it was asked for', async () => {
    await open({ comment: true }, undefined, {});
    tracker.failures.push(new SyncError('rate_limited', 'HTTP 429', { status: 429, retryAfter: 600_000 }));
    const from = world.clock.elapsed();
    for (const more of [0, 1, 2]) await say(number + more);
    await world.until(async () => world.clock.elapsed() - from > 590_000);
    expect([tracker.failures, tracker.writes]).toEqual([[], []]);
    await detected();
    expect(tracker.writes.toSorted()).toEqual([0, 1, 2].map((more) => `comment ${issue(number + more).key}`));
    const { query } = world.partition().store;
    const rows = await query.selectFrom('notices').select(['attempts', 'error']).execute();
    expect(rows).toEqual(Array.from({ length: 3 }, () => ({ attempts: 0, error: null })));
  });

  describe('that comes back as a webhook', () => {
    const comment = async (told: object = {}) => {
      const workspace = await readMeta(world.partition().store.query, WORKSPACE_ID);
      const text = `Linked to ${bug(1)}. worksync:${workspace}:tasks`;
      const item = { ...issue(number), comment: { id: '1', author: 'worksync', text, ...told } };
      expect(await tell(world.daemon().address, item, { secret: WEBHOOK_SECRET })).toBe(202);
      await world.clock.advance(1_000);
    };

    it('asks for nothing, also after a restart', async () => {
      await open({ comment: true });
      await say(number);
      await detected();
      await comment();
      await world.restart();
      await comment();
      await world.settled();
      expect(tracker.fetches).toEqual([]);
      expect((await ignored()).slice(before)).toEqual([{ reason: 'own_comment' }, { reason: 'own_comment' }]);
    });
  });

  it('is not written where nothing says so [A14]', async () => {
    await open(undefined);
    await say(number);
    await finish('completed');
    await world.clock.advance(3_600_000);
    expect(tracker.writes).toEqual([]);
  });
});

describe('closing', () => {
  it('follows the tasks, without a webhook of the workspace, once; and never fights a person', async () => {
    await open({ close: true });
    await say(number);
    await detected();
    expect(tracker.writes).toEqual([]);
    await finish('completed');
    await world.until(() => tracker.closed.length > 0);
    expect(tracker.closed).toEqual([issue(number).key]);
    await say(number, { state: 'done' });
    await say(number, { state: 'open', title: 'Reopened by a person' });
    await detected();
    await world.clock.advance(3_600_000);
    await world.settled();
    expect(tracker.writes).toEqual([`close ${issue(number).key}`]);
  });

  it('is not repeated because the database could not store that it was done', async () => {
    await open({ close: true });
    await say(number);
    await finish('completed');
    const { store } = world.partition();
    const commit = store.commit.bind(store);
    const isFull = () => tracker.closed.length > 0;
    const failing = vi.spyOn(store, 'commit').mockImplementation((work) => {
      return isFull() ? Promise.reject(new Error('the disk is full')) : commit(work);
    });
    await world.until(isFull);
    await world.clock.advance(60_000);
    failing.mockRestore();
    await say(number, { state: 'open', title: 'Reopened by a person' });
    await detected();
    await world.clock.advance(3_600_000);
    await world.settled();
    expect(tracker.writes).toEqual([`close ${issue(number).key}`]);
  });

  it('does not follow a task that was given up, and comes anew when a task was taken up again and finished', async () => {
    await open({ close: true });
    await say(number);
    await finish('cancelled');
    await world.clock.advance(1_800_000);
    await world.settled();
    expect(tracker.writes).toEqual([]);
    for (const status of ['completed', 'open', 'completed'] as const) {
      await finish(status);
      await world.clock.advance(1_800_000);
      await detected();
    }
    expect(tracker.writes).toEqual([`close ${issue(number).key}`, `close ${issue(number).key}`]);
  });
});

describe('a commit status', () => {
  const HEADS = ['1', '2', '3'].map((digit) => digit.repeat(40)) as [string, string, string];
  const tell1 = async (fields: Parameters<typeof pullRequest>[1] = {}) => {
    await world.clock.advance(1_000);
    const item = pullRequest(number, { updatedAt: world.clock.now(), ...fields });
    expect(await tell(world.daemon().address, item, { secret: WEBHOOK_SECRET })).toBe(202);
    await detected();
  };
  const written = () => tracker.statuses.map(({ sha, state, text }) => `${sha.slice(0, 1)} ${state}: ${text}`);
  const NONE = 'linked to no task: put the key of one into title, description or branch';

  it('follows the links and the head, and is written when it changes alone', async () => {
    await open({ status: 'require' }, {});
    for (const title of ['One', 'Two']) await world.bug(title);
    await tell1();
    expect(written()).toEqual([`1 failure: ${NONE}`]);
    expect(tracker.statuses[0]?.url).toBe(pullRequest(number).url);
    await tell1({ title: `Fixes ${bug(1)}` });
    await tell1({ title: `Fixes ${bug(1)}, really` });
    await world.restart();
    await detected();
    // So that the list, which has the second task, may be read at once.
    await world.clock.advance(120_000);
    await tell1({ title: `Fixes ${bug(1)} and ${bug(2)}`, headSha: HEADS[1] });
    await tell1({ title: 'Fixes nothing', headSha: HEADS[1] });
    expect(written()).toEqual([
      `1 failure: ${NONE}`,
      `1 success: linked to ${bug(1)}`,
      `2 success: linked to ${bug(1)}, ${bug(2)}`,
      `2 failure: ${NONE}`,
    ]);
  });

  it('without require it fails never; closed pull requests and work items get none', async () => {
    await open({ status: true }, {});
    await world.bug('One');
    await say(number, { title: `${bug(1)}` });
    await tell1();
    await tell1({ title: `${bug(1)}`, state: 'closed', headSha: HEADS[1] });
    expect(written()).toEqual(['1 success: linked to no task']);
    await tell1({ title: `${bug(1)}`, state: 'open', headSha: HEADS[1] });
    expect(written().at(-1)).toBe(`2 success: linked to ${bug(1)}`);
  });

  it('that is refused is tried again at the next start; check says which right is missing', async () => {
    await open({ status: true }, {});
    const found = async () =>
      (await checkAll({ partitions: [world.partition()], wrong: new Map(), clock: world.clock }))
        .filter(({ message }) => message.includes('writeBack.status'))
        .map(({ level, hint = '' }) => [level, hint.includes('the right to write statuses')]);
    expect(await found()).toEqual([['ok', false]]);
    tracker.failures.push(new SyncError('refused', 'may not', { hint: 'Give it the right.' }));
    await tell1();
    await world.clock.advance(7_200_000);
    await world.settled();
    expect(written()).toEqual([]);
    expect(await found()).toEqual([[expect.not.stringContaining('ok'), true]]);
    await world.restart();
    await detected();
    expect(written()).toEqual(['1 success: linked to no task']);
  });
});
