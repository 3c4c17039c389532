import BetterSqlite from 'better-sqlite3';
import { type StoredBody, unpackBody } from '../../src/store/bodies.ts';
import { databaseFile } from './daemon.ts';
import { expectSettled, ITEMS, openReconcile } from './known-items.ts';
import { appendPages, PAGE } from './pages.ts';
import { pullObject } from './pulls.ts';

/** One measurement in a process of its own; sends `{seconds}` to its parent. The pages are removed again. */
const [kind, folder = ''] = process.argv.slice(2);
const { store, reconcile, source } = await openReconcile(folder);
await appendPages(store);
const before = await latestWrite();
const seconds = await (kind === 'drain' ? timed(() => reconcile.drain()) : timed(async () => readRaw()));
if (kind === 'raw') await reconcile.drain();
await expectSettled(store);
if ((await latestWrite()) !== before) throw new Error('an unchanged item was written');
await store.query.deleteFrom('inbox').where('event', '=', 'pulls.list').execute();
await store.close();
process.send?.({ seconds });

async function latestWrite(): Promise<number> {
  const { latest } = await store.query
    .selectFrom('items')
    .select(({ fn }) => fn.max('seen_at').as('latest'))
    .executeTakeFirstOrThrow();
  return latest;
}

async function timed(work: () => Promise<void>): Promise<number> {
  const begin = performance.now();
  await work();
  return (performance.now() - begin) / 1_000;
}

/** What `drain` cannot do without: each page's body, decoded, and what tells whether an item of it changed. */
function readRaw(): void {
  const database = new BetterSqlite(databaseFile(folder), { readonly: true });
  const bodies = database.prepare<[], StoredBody>(
    "select body, unpacked_length from inbox where state = 'pending' order by id",
  );
  const mark = database.prepare('select key, provider_time, hash from items where workspace = 1 and key = ?');
  let read = 0;
  for (const body of bodies.iterate()) {
    if ((JSON.parse(unpackBody(body).toString()) as unknown[]).length === PAGE) read++;
  }
  for (const key of keys()) if (mark.get(key) !== undefined) read++;
  database.close();
  if (read !== ITEMS + ITEMS / PAGE) throw new Error(`${read} rows read`);
}

function* keys(): Generator<string> {
  const [first] = itemsOf(1);
  if (!first) throw new Error('a pull request of the bench is none');
  for (let number = 1; number <= ITEMS; number++) yield first.key.replace(/1$/, String(number));
}

function itemsOf(number: number) {
  const body = Buffer.from(JSON.stringify([pullObject(number)]));
  const delivery = { id: 0, connection: 'github', source: 'poll', event: 'pulls.list', body, receivedAt: 0 } as const;
  const translation = source.translate(delivery);
  return translation.outcome === 'items' ? translation.items : [];
}
