import BetterSqlite from 'better-sqlite3';
import { type StoredBody, unpackBody } from '../../src/store/deliveries/inbox.ts';
import { expectPremise } from './bench.ts';
import { databaseFile, familyCpu } from './daemon.ts';
import { appendPages, expectSettled, ITEMS, itemOf, makeKnown, openReconcile, PAGE, webhook } from './known-items.ts';

export interface Spent {
  /** Seconds of the wall clock, of CPU of this process, and of CPU of PostgreSQL. */
  readonly wall: number;
  readonly cpu: number;
  readonly serverCpu: number;
}

export interface Reconciled {
  readonly made: Spent;
  readonly repeated: Spent;
}

/**
 * One measurement in a process of its own, sent to its parent: of a folder with known items `drain` or `raw`, of which the
 * pages are removed again; or of so many new items, with the place of the rows and the server's process.
 */
const [folder = '', kind, place, server] = process.argv.slice(2);
const { store, reconcile, source } = await openReconcile(folder, place || undefined);
process.send?.(kind === 'drain' || kind === 'raw' ? await repeatKnown(kind) : await makeAndRepeat(Number(kind)));
await store.close();

async function makeAndRepeat(items: number): Promise<Reconciled> {
  const made = await spent(() => makeKnown({ store, reconcile, source }, items));
  await appendPages(store, { items });
  return { made, repeated: await spentUnchanged(() => reconcile.drain(), items) };
}

async function repeatKnown(kind: 'drain' | 'raw'): Promise<Spent> {
  await appendPages(store);
  const used = await spentUnchanged(() => (kind === 'drain' ? reconcile.drain() : readRaw()), ITEMS);
  await store.query.deleteFrom('inbox').where('event', '=', 'pulls.list').execute();
  return used;
}

/** Throws unless the pages are settled afterwards, and no item was written. */
async function spentUnchanged(work: () => void | Promise<void>, items: number): Promise<Spent> {
  const before = await latestWrite();
  const used = await spent(work);
  await reconcile.drain();
  await expectSettled(store, items);
  expectPremise((await latestWrite()) === before, 'an unchanged item was written');
  return used;
}

async function latestWrite(): Promise<number> {
  const latest = store.query.selectFrom('items').select(({ fn }) => fn.max('seen_at').as('latest'));
  return (await latest.executeTakeFirstOrThrow()).latest;
}

async function spent(work: () => void | Promise<void>): Promise<Spent> {
  const serverCpu = () => (server ? familyCpu(Number(server)) : 0);
  const before = { wall: performance.now(), cpu: process.cpuUsage(), serverCpu: serverCpu() };
  await work();
  const { user, system } = process.cpuUsage(before.cpu);
  return {
    wall: (performance.now() - before.wall) / 1_000,
    cpu: (user + system) / 1e6,
    serverCpu: serverCpu() - before.serverCpu,
  };
}

/** Does the least that `drain` has to do: decodes each page, and reads whether an item of it changed. */
function readRaw(): void {
  const database = new BetterSqlite(databaseFile(folder), { readonly: true });
  const pending = "select body, unpacked_length from inbox where state = 'pending' order by id";
  const mark = database.prepare('select key, provider_time, hash from items where workspace = 1 and key = ?');
  let read = 0;
  for (const body of database.prepare<[], StoredBody>(pending).iterate()) {
    if ((JSON.parse(unpackBody(body).toString()) as unknown[]).length === PAGE) read++;
  }
  const first = itemOf(source, webhook(1)).key;
  for (let number = 1; number <= ITEMS; number++)
    if (mark.get(first.replace(/1$/, String(number))) !== undefined) read++;
  database.close();
  expectPremise(read === ITEMS + ITEMS / PAGE, `${read} rows read`);
}
