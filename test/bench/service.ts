import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { type Running, startWorksync } from '../support/harness/processes.ts';
import { type Bench, RUNS } from './bench.ts';
import { repeatRequest, startPeer } from './load.ts';
import { compared } from './report.ts';

/**
 * Requests per second of `worksync workspace serve`, quota lifted, with one API key over 50 connections, against a bare
 * Fastify that answers the same bytes without looking anything up.
 *
 * `service.reads` gets one task, 200 with its body; `service.writes` creates bugs, each 201 after a commit with
 * `synchronous=FULL` on a real disk. The rows are counted against the answers.
 */
export const service: Bench = {
  figures: ['service.reads', 'service.writes'],
  async run() {
    const folder = mkdtempSync(join(tmpdir(), 'worksync-bench-'));
    const serving = startWorksync([...SERVE, '--db', join(folder, 'service.db')]);
    try {
      const address = JSON.parse(await serving.says('\n')) as Address;
      return await measureAll(serving, folder, address);
    } finally {
      await serving.end('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

const SERVE = ['workspace', 'serve', '--port', '0', '--quota', '0', '--burst', '0', '--json'];

interface Address {
  readonly url: string;
  readonly apiKey: string;
}

const BUG = JSON.stringify({
  title: 'Login fails when the session has expired',
  description: 'Steps: open the page, wait for an hour, press the button. '.repeat(4),
  priority: 'high',
  labels: ['auth', 'web'],
});

async function measureAll(serving: Running, folder: string, { url, apiKey }: Address) {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const created = await fetch(`${url}/workspaces/current/bugs`, { method: 'POST', headers, body: BUG });
  const answer = await created.text();
  const { taskId } = JSON.parse(answer) as { taskId: string };
  const peer = await startPeer('fastify', { answer });
  const ours = { port: Number(new URL(url).port), key: apiKey, connections: CONNECTIONS };
  const bare = { ...ours, port: peer.port };
  const kinds = {
    reads: { method: 'GET', path: `/api/v1/workspaces/current/tasks/${taskId}` },
    writes: { method: 'POST', path: '/api/v1/workspaces/current/bugs', body: BUG },
  };
  const runs = { reads: { ours: [], bare: [] }, writes: { ours: [], bare: [] } } as Record<Kind, Runs>;
  let made = 1;
  try {
    for (let round = 0; round < RUNS; round++) {
      for (const kind of ['reads', 'writes'] as const) {
        for (const [name, target] of [['ours', ours] as const, ['bare', bare] as const]) {
          const warm = await repeatRequest(target, kinds[kind], round === 0 ? WARM_UP : SETTLE);
          const timed = await repeatRequest(target, kinds[kind], MEASURED);
          runs[kind][name].push(timed.perSecond);
          if (kind === 'writes' && name === 'ours') made += warm.answered + timed.answered;
        }
      }
    }
  } finally {
    peer.child.kill('SIGKILL');
  }
  await serving.end();
  expectAllStored(folder, made);
  const meaning = { unit: 'requests/s', better: 'higher' } as const;
  return [
    compared({ ...meaning, name: 'service.reads', aim: 0.4 }, runs.reads.ours, runs.reads.bare),
    compared({ ...meaning, name: 'service.writes', aim: 0.2 }, runs.writes.ours, runs.writes.bare),
  ];
}

type Kind = 'reads' | 'writes';
type Runs = { ours: number[]; bare: number[] };
const CONNECTIONS = 50;
/** Milliseconds: until the code is compiled, between two rounds, and what is measured. */
const WARM_UP = 2_000;
const SETTLE = 200;
const MEASURED = 1_500;

function expectAllStored(folder: string, made: number): void {
  const database = new BetterSqlite(join(folder, 'service.db'), { readonly: true });
  try {
    const stored = database.prepare('select count(*) from tasks').pluck().get() as number;
    if (stored !== made) throw new Error(`${made} answered, ${stored} stored`);
  } finally {
    database.close();
  }
}
