import { makeKnown, openReconcile } from '../known-items.ts';
import { appendPages } from '../pages.ts';
import { familyCpu } from '../usage.ts';

/** What reconcile has used for some items. */
export interface Spent {
  /** Seconds of the wall clock, of CPU of this process, and of CPU of PostgreSQL. */
  readonly wall: number;
  readonly cpu: number;
  readonly serverCpu: number;
}

/** What a child sends to its parent: of items that are new, and of the same again, of which nothing has changed. */
export interface Reconciled {
  readonly made: Spent;
  readonly repeated: Spent;
}

/** One measurement in a process of its own: a folder, the place of the rows, how many items, and the server's process. */
const [folder = '', place, items, server] = process.argv.slice(2);
const opened = await openReconcile(folder, place || undefined);
const made = await spent(() => makeKnown(opened, Number(items)));
await appendPages(opened.store, { items: Number(items) });
const repeated = await spent(() => opened.reconcile.drain());
await opened.store.close();
process.send?.({ made, repeated } satisfies Reconciled);

async function spent(work: () => Promise<void>): Promise<Spent> {
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
