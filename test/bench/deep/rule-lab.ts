import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { LabReport } from '../../../src/admin/workspace/lab.ts';
import { type Bench, expectPremise, figure, inFolder, type Measured } from '../bench.ts';
import { longestOf, ownerOf, runWatched, usageOf, type Watched, WORKSPACE, writeConfiguration } from '../daemon.ts';
import { createKnownItems, ITEMS } from '../known-items.ts';

const RULES = { links: [{ pattern: 'tenant ([0-9]+)', place: ['title'], task: 'BUG-$1' }], trailers: ['Closes-Task'] };

/**
 * How long the rule lab takes over 100 000 items of a running daemon, in seconds of CPU of the process, and how long the main
 * thread works between two turns meanwhile.
 */
export const ruleLab: Bench = {
  figures: ['lab', 'lab.block'],
  run: () =>
    inFolder(async (folder) => {
      await createKnownItems(folder);
      const text = readFileSync(writeConfiguration(folder, { rules: RULES }), 'utf8');
      return runWatched({ folder }, (daemon) => measure(daemon, text));
    }),
};

async function measure(daemon: Watched, config: string): Promise<Measured[]> {
  const begin = Date.now();
  const before = usageOf(daemon.pid).cpu;
  const report = await tryOut(daemon, config);
  const seconds = (Date.now() - begin) / 1_000;
  const cpu = usageOf(daemon.pid).cpu - before;
  const items = report.items.open + report.items.finished;
  expectPremise(items === ITEMS, `${items} items were evaluated`);
  // The last turns may not be written down yet.
  await pause(50);
  const note = `${seconds.toFixed(1)} s by the wall clock`;
  return [
    figure({ name: 'lab', unit: 's of CPU', aim: 10, note }, [cpu]),
    figure({ name: 'lab.block', unit: 'ms', aim: 50 }, [longestOf(daemon.turnsSince(begin))]),
  ];
}

async function tryOut(daemon: Watched, config: string): Promise<LabReport> {
  const { address, token } = ownerOf(daemon);
  const answer = await fetch(`${address}/admin/workspaces/${WORKSPACE}/questions/lab`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ config, limit: 20 }),
  });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return (await answer.json()) as LabReport;
}
