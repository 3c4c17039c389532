import BetterSqlite from 'better-sqlite3';
import { type StoredBody, unpackBody } from '../../src/store/bodies.ts';
import { databaseFile, familyCpu } from './daemon.ts';
import { appendPages, expectSettled, ITEMS, makeKnown, openReconcile, PAGE, pullObject } from './known-items.ts';

/** What some work has used. */
export interface Spent {
  /** Seconds of the wall clock, of CPU of this process, and of CPU of PostgreSQL. */
  readonly wall: number;
  readonly cpu: number;
  readonly serverCpu: number;
}

/** Of items that are new, and of the same again, of which nothing has changed. */
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
  return { made, repeated: await spent(() => reconcile.drain()) };
}

async function repeatKnown(kind: 'drain' | 'raw'): Promise<Spent> {
  await appendPages(store);
  const before = await latestWrite();
  const used = await spent(() => (kind === 'drain' ? reconcile.drain() : readRaw()));
  if (kind === 'raw') await reconcile.drain();
  await expectSettled(store);
  if ((await latestWrite()) !== before) throw new Error('an unchanged item was written');
  await store.query.deleteFrom('inbox').where('event', '=', 'pulls.list').execute();
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

/** What `drain` cannot do without: each page's body, decoded, and what tells whether an item of it changed. */
function readRaw(): void {
  const database = new BetterSqlite(databaseFile(folder), { readonly: true });
  const pending = "select body, unpacked_length from inbox where state = 'pending' order by id";
  const mark = database.prepare('select key, provider_time, hash from items where workspace = 1 and key = ?');
  let read = 0;
  for (const body of database.prepare<[], StoredBody>(pending).iterate()) {
    if ((JSON.parse(unpackBody(body).toString()) as unknown[]).length === PAGE) read++;
  }
  const first = keyOfFirst();
  for (let number = 1; number <= ITEMS; number++)
    if (mark.get(first.replace(/1$/, String(number))) !== undefined) read++;
  database.close();
  if (read !== ITEMS + ITEMS / PAGE) throw new Error(`${read} rows read`);
}

function keyOfFirst(): string {
  const body = Buffer.from(JSON.stringify([pullObject(1)]));
  const delivery = { id: 0, connection: 'github', source: 'poll', event: 'pulls.list', body, receivedAt: 0 } as const;
  const translation = source.translate(delivery);
  if (translation.outcome !== 'items' || !translation.items[0]) throw new Error('a pull request of the bench is none');
  return translation.items[0].key;
}
