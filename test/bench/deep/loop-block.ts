import { setTimeout as pause } from 'node:timers/promises';
import BetterSqlite from 'better-sqlite3';
import { openStore } from '../../support/harness/store.ts';
import { type Bench, figure, inFolder } from '../bench.ts';
import {
  ask,
  databaseFile,
  longestOf,
  lookInto,
  percentileOf,
  runWatched,
  type Turn,
  until,
  type Watched,
  WEBHOOK_PATH,
  WORKSPACE,
  writeConfiguration,
} from '../daemon.ts';
import { largeBody } from '../deliveries.ts';
import { appendPages, createKnownItems, ITEMS } from '../known-items.ts';
import { deliver } from '../load.ts';

/** Items of which pages say something new. */
const CHANGED = 10_000;
const ASKED_EVERY = 500;

/**
 * How long the main thread works between two turns while one daemon does what there is to do on 100 000 items: it takes over
 * pages that tell again of all of them, and pages that tell something new of a tenth; takes new rules, by which it looks at
 * all open ones again; takes a delivery of 25 MB; and purges all deliveries. It is asked for its status and metrics all the
 * while. CPU of that thread: the longest, and the longest but a thousandth of all, of the phase where that is worst.
 */
export const loopBlock: Bench = {
  figures: ['loop.block', 'loop.block.p999'],
  run: () =>
    inFolder(async (folder) => {
      await createKnownItems(folder);
      await tellAgain(folder);
      const phases = [...(await work(folder)), await purge(folder)];
      const note = phases.map(told).join('; ');
      const worst = (read: (turns: readonly Turn[]) => number) => [Math.max(...phases.map(({ turns }) => read(turns)))];
      return [
        figure({ name: 'loop.block', unit: 'ms', aim: 50, note }, worst(longestOf)),
        figure(
          { name: 'loop.block.p999', unit: 'ms', aim: 50 },
          worst((turns) => percentileOf(turns, 0.999)),
        ),
      ];
    }),
};

type Phase = Awaited<ReturnType<typeof phase>>;

function told({ name, seconds, turns }: Phase): string {
  const [longest, p999] = [longestOf(turns), percentileOf(turns, 0.999)].map((ms) => ms.toFixed(1));
  return `${name}: ${longest} ms, p99.9 ${p999} ms, by the wall clock ${wallOf(turns)} ms, in ${seconds.toFixed(0)} s`;
}

function wallOf(turns: readonly Turn[]): string {
  return Math.max(0, ...turns.map(({ wall }) => wall)).toFixed(0);
}

async function tellAgain(folder: string): Promise<void> {
  const store = await openStore({ file: databaseFile(folder) }, WORKSPACE);
  await appendPages(store);
  await appendPages(store, { items: CHANGED, isNew: true });
  await store.close();
}

function work(folder: string): Promise<Phase[]> {
  const setup = { folder, config: writeConfiguration(folder) };
  return runWatched(setup, async (daemon) => {
    const asking = askAllTheWhile(daemon);
    const look = (statement: string) => lookInto(folder, statement);
    const pending = "select count(*) from inbox where state = 'pending'";
    const ended = "select max(id) from inbox where state = 'applied'";
    const looked = "select value from meta where name = 'rules.looked_by'";
    const again = await phase(daemon, 'told again', () => until(() => look(pending) <= CHANGED / 100));
    const anew = await phase(daemon, 'told anew', () => until(() => look(pending) === 0));
    const before = look(looked);
    const rules = await phase(daemon, 'new rules', async () => {
      writeConfiguration(folder, { rules: { trailers: ['Task', 'Closes-Task'] } });
      process.kill(daemon.pid, 'SIGHUP');
      await until(() => look(looked) !== before);
    });
    const large = await phase(daemon, '25 MB', async () => {
      const applied = look(ended);
      await deliver({ port: daemon.port, path: WEBHOOK_PATH }, largeBody(25_000_000, ITEMS + 1), 'large');
      await until(() => look(ended) !== applied);
    });
    await asking.end();
    return [again, anew, rules, large];
  });
}

function purge(folder: string): Promise<Phase> {
  const database = new BetterSqlite(databaseFile(folder));
  database.prepare("insert or replace into installation (name, value) values ('run.retention', '0')").run();
  database.close();
  const config = writeConfiguration(folder, {
    rules: { trailers: ['Task', 'Closes-Task'] },
    retention: { bodies: '1s', deliveries: '1s' },
  });
  return runWatched({ folder, config }, async (daemon) => {
    const asking = askAllTheWhile(daemon);
    const look = (statement: string) => lookInto(folder, statement);
    const purged = await phase(daemon, 'purge', () => until(() => look('select exists (select 1 from inbox)') === 0));
    await asking.end();
    return purged;
  });
}

/** Begins where the daemon is ready: what it does before holds up nobody. */
async function phase({ turnsSince }: Watched, name: string, use: () => Promise<void>) {
  const begin = Date.now();
  await use();
  const seconds = (Date.now() - begin) / 1_000;
  // The last of them may not be written down yet.
  await pause(50);
  return { name, seconds, turns: turnsSince(begin) };
}

function askAllTheWhile(daemon: Watched) {
  let isOver = false;
  const asking = (async () => {
    while (!isOver) {
      for (const path of ['/status.json', '/metrics']) await ask(daemon, path, [WORKSPACE]);
      await pause(ASKED_EVERY);
    }
  })();
  return {
    end() {
      isOver = true;
      return asking;
    },
  };
}
