import { SUCCESSION } from '../../src/daemon/compose.ts';
import { type EntityKind, entity } from '../../src/model/change.ts';
import { SyncError } from '../../src/model/errors/sync-error.ts';
import { systemRandom } from '../../src/platform/lib/random.ts';
import { blankEntity, findEntity, saveEntity } from '../../src/store/changes/entities.ts';
import { addDifference, findChange } from '../../src/store/changes/outbox-rows.ts';
import type { Store } from '../../src/store/database.ts';
import {
  fenceOf,
  localTime,
  register,
  removeExpired,
  replicasOf,
  takeLeases,
} from '../../src/store/installation/leases.ts';
import { readLedger } from '../../src/store/quota/ledger.ts';
import { saveTaskMarks } from '../../src/store/tasks/task-creations.ts';
import { configureLinks } from '../../src/store/workspace/server-capabilities.ts';
import type { Scope } from '../../src/store/workspace-scope.ts';
import { recover } from '../../src/sync/outbox/outbox.ts';
import type { PreparedRequest } from '../../src/sync/outbox/request.ts';
import { settle } from '../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../src/sync/outbox/settle-failure.ts';
import { type Entry, openWindowLedger, type WindowLedger } from '../../src/sync/quota/window-ledger.ts';
import { applyTaskList } from '../../src/sync/reconcile/answers/task-answers.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { prepareNext } from '../support/harness/prepare-next.ts';
import { openTestInstallation } from '../support/harness/store.ts';
import { openRecords } from '../support/rows/records-route.ts';
import type { Bounds, Change, ChangeName, Slot, State } from './model.ts';

/** Milliseconds of a tick. */
const TICK = 10_000;
const TTL = 3_000;
const ITEM = 'github:1#1';
const NAMES: Readonly<Record<ChangeName, { readonly name: string; readonly kind: EntityKind }>> = {
  task: { name: entity.task(ITEM), kind: 'task' },
  record: { name: entity.pullRequest('github', '1', '1'), kind: 'pull_request' },
  link: { name: entity.link(ITEM, 'task-9'), kind: 'link' },
};

interface Partition {
  readonly store: Store;
  book?: WindowLedger;
  /** By change. */
  readonly sent: Map<number, { readonly prepared: PreparedRequest; readonly entry: Entry }>;
}

/** The facts that the model and the rows share. */
export interface Standing {
  readonly ledger: readonly Slot[];
  readonly changes: readonly Pick<Change, 'state' | 'rest'>[];
}

/** The program's own functions over a database, taking the steps of the model by their names. */
export async function openReal({ changes: names, windows }: Bounds) {
  const clock = createTravellingClock();
  const installation = await openTestInstallation({ file: ':memory:' });
  const random = systemRandom();
  const partitions: (Partition | undefined)[] = [undefined, undefined];
  const plain = await installation.store('one');
  const [workspace] = [plain.query.workspace];
  const context = () => ({ now: clock.now(), random, usedShare: 0 });
  const desiredOf = (version: number) => JSON.stringify({ title: `version ${version}`, url: 'https://example.com/1' });
  const wanted = names.map((name) => NAMES[name]);
  await plain.commit(async (query) => {
    await openRecords(query);
    await configureLinks(query, true);
    await saveTaskMarks(query, { source: true, description: true });
  });
  for (const { name, kind } of wanted) await plain.commit((query) => want(query, name, kind, 1));

  async function want(query: Scope, name: string, kind: EntityKind, version: number): Promise<void> {
    const ids = { item_key: ITEM, ...(kind === 'link' && { task_id: 'task-9' }) };
    const held = (await findEntity(query, name)) ?? blankEntity(name, kind, ids);
    await saveEntity(query, { ...held, desired: desiredOf(version) });
    const now = clock.now();
    await addDifference(query, { entity: name, kind, lane: 'mirror', since: now, due: now, weight: 1, waiting: [] });
  }

  async function take(who: number): Promise<void> {
    const { query } = installation;
    const time = localTime(clock);
    const incarnation = random.uuid();
    await removeExpired(query, await replicasOf(query));
    await register(query, { id: `process-${who}`, incarnation, address: '', about: '{}' }, time, TTL);
    const taken = await installation.commit((transaction) => takeLeases(transaction, incarnation, [workspace]));
    const epoch = taken.get(workspace)?.epoch;
    if (epoch === undefined) throw new Error('the lease was not free');
    const store = await installation.store('one', fenceOf({ workspace, incarnation, epoch }));
    partitions[who] = { store, sent: new Map() };
  }

  const windowsOf = windows.map(({ cap, length }) => ({ cap, hold: length * TICK }));

  async function open({ store }: Partition): Promise<WindowLedger> {
    return store.commit(async (query) => {
      const book = await openWindowLedger(query, clock, windowsOf, SUCCESSION.untouched);
      await recover(query, context(), SUCCESSION.untouched);
      return book;
    });
  }

  async function prepare({ store, book, sent }: Partition, change: number): Promise<void> {
    const entry = book?.open('mirror');
    if (!book || !entry) throw new Error('it is not open');
    const eligible = { now: clock.now(), onlyReads: false };
    const prepared = await store.commit(async (query) => {
      const next = await prepareNext(query, eligible, wanted[change]?.name);
      await book.record(entry, query);
      return next;
    });
    if (prepared?.entity !== wanted[change]?.name) throw new Error(`${prepared?.entity} was prepared`);
    sent.set(change, { prepared: prepared as PreparedRequest, entry });
  }

  async function readBack({ store, book }: Partition, isMade: boolean): Promise<void> {
    const entry = book?.open('read');
    if (!book || !entry) throw new Error('it is not open');
    await store.commit((query) => book.record(entry, query));
    book.complete(entry, 200);
    const about = { key: 'BUG-1', title: '', status: 'open', source: ITEM, createdAt: '', updatedAt: '' };
    const body = { tasks: isMade ? [{ taskId: 'task-1', ...about }] : [] };
    const answer = { action: 'read-tasks', entity: entity.readTasks, sentAt: clock.now(), body } as const;
    await store.commit(async (query) => {
      await book.recordEnd(entry, query);
      await applyTaskList(query, answer, context());
    });
  }

  async function end({ store, book, sent }: Partition, change: number, isAnswered: boolean): Promise<void> {
    const { prepared, entry } = sent.get(change) ?? {};
    if (!book || !prepared || !entry) throw new Error('nothing was sent');
    book.complete(entry, isAnswered ? 200 : undefined);
    await store.commit(async (query) => {
      await book.recordEnd(entry, query);
      if (isAnswered) return settle(query, prepared, {}, { ...context(), status: 200 });
      const error = new SyncError('outcome_unknown', 'no answer');
      return settleFailure(query, prepared, error, context());
    });
  }

  /** @param before the state in which the step is taken. @returns whether the fence kept it out */
  async function step(name: string, before: State): Promise<boolean> {
    const [who, change] = [Number(/^(\d)/.exec(name)?.[1]), Number(/(\d)$/.exec(name)?.[1])];
    const partition = partitions[who] as Partition;
    try {
      if (name === 'time passes') await clock.advance(TICK);
      else if (name === 'news') await plain.commit((query) => want(query, NAMES.record.name, 'pull_request', 2));
      else if (name.endsWith('takes the lease')) await take(who);
      else if (/may not prepare/.test(name)) await prepare(partition, before.changes.findIndex(isWaiting));
      else if (/ opens| may not open/.test(name)) partition.book = await open(partition);
      else if (/ prepares /.test(name)) await prepare(partition, change);
      else if (/ reads back /.test(name)) await readBack(partition, (before.made[change] ?? 0) > 0);
      else if (/ gets (no )?answer /.test(name)) await end(partition, change, !name.includes(' no '));
      return false;
    } catch (error) {
      if ((error as { code?: string }).code !== 'lease_lost') throw error;
      return true;
    }
  }

  async function standing(): Promise<Standing> {
    const rows = await Promise.all(wanted.map(({ name }) => findChange(plain.query, name)));
    const changes = rows.map((row) => {
      // A pause of a second or two is none.
      const rest = Math.max(0, Math.floor(((row?.not_before ?? 0) - clock.now()) / TICK));
      return { state: (row?.state ?? 'done') as Change['state'], rest };
    });
    const longest = Math.max(...windows.map(({ length }) => length));
    const slots = (await readLedger(plain.query)).map(({ completed }) =>
      completed === null ? null : (clock.monotonic() - completed) / TICK,
    );
    const ledger = slots.filter((slot) => slot === null || slot < longest);
    return { changes, ledger: ledger.toSorted((a, b) => (a ?? -99) - (b ?? -99)) };
  }

  return { step, standing, close: () => installation.close() };
}

function isWaiting({ state, rest }: Change): boolean {
  return rest === 0 && state === 'pending';
}
