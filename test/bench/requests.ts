import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { startWorkspaceService, type TestService } from '../support/fakes/workspace-service.ts';
import { type Running, startWorksync } from '../support/harness/processes.ts';
import { type Bench, expectPremise, figuresOf, inFolder, type Measured, RUNS } from './bench.ts';
import { runAlone } from './daemon.ts';
import { type Request, repeatRequest, startPeer } from './load.ts';

/** Milliseconds: until the code is compiled, between two rounds, and what is measured. */
const WARM_UP = 2_000;
const SETTLE = 200;
const MEASURED = 1_500;

interface Contest {
  /** Ports of our server, and of one that answers the same bytes without any lookup. */
  readonly ports: { readonly ours: number; readonly bare: number };
  readonly key: string;
  readonly connections: number;
}

type Round = Awaited<ReturnType<typeof measureRound>>;

async function measureRound({ ports, ...who }: Contest, request: Request, isFirst: boolean) {
  const measure = async (port: number) => {
    const warm = await repeatRequest({ ...who, port }, request, isFirst ? WARM_UP : SETTLE);
    const timed = await repeatRequest({ ...who, port }, request, MEASURED);
    return { perSecond: timed.perSecond, answered: warm.answered + timed.answered };
  };
  const ours = await measure(ports.ours);
  return { ours: ours.perSecond, answered: ours.answered, bare: (await measure(ports.bare)).perSecond };
}

function rowOf(name: string, aim: number, rounds: readonly Round[]): Measured[] {
  const meaning = { name, aim, unit: 'requests/s', better: 'higher' } as const;
  return figuresOf(rounds, { ...meaning, of: ({ ours }) => ours, against: ({ bare }) => bare });
}

/**
 * Reads of one task per second that the gateway of a whole daemon answers from memory, over 20 connections with an API
 * key, against Node's own HTTP server that answers the same bytes and looks at nothing. What the workspace itself was
 * asked is counted: once in `gateway.fresh`.
 */
export const gateway: Bench = {
  figures: ['gateway.hit'],
  async run() {
    const service = await startWorkspaceService();
    try {
      const { url, apiKey } = service;
      return await runAlone({ url, apiKey }, ({ port }) => measureGateway(port, service));
    } finally {
      await service.close();
    }
  },
};

/** More than the first reads of the daemon and one read every 15 s could be. */
const MOST_ASKED = 20;

async function measureGateway(port: number, service: TestService): Promise<Measured[]> {
  const { taskId } = (await service.client().createBug({ body: { title: 'Login fails', labels: ['auth'] } }, {})).body;
  const path = `/api/v1/workspaces/current/tasks/${taskId}`;
  const first = await fetch(`http://127.0.0.1:${port}${path}`, {
    headers: { authorization: `Bearer ${service.apiKey}` },
  });
  const headers = Object.fromEntries([...first.headers].filter(([name]) => !AUTOMATIC.includes(name)));
  const peer = await startPeer('http', { answer: await first.text(), headers });
  const contest = { ports: { ours: port, bare: peer.port }, key: service.apiKey, connections: 20 };
  const rounds: Round[] = [];
  try {
    while (rounds.length < RUNS) rounds.push(await measureRound(contest, { method: 'GET', path }, rounds.length === 0));
  } finally {
    peer.child.kill('SIGKILL');
  }
  const asked = (await service.service.statistics()).requests.get(service.apiKeyId)?.received ?? 0;
  expectPremise(asked <= MOST_ASKED, `the workspace was asked ${asked} times`);
  return rowOf('gateway.hit', 0.65, rounds);
}

/** Headers that Node's server sets by itself. */
const AUTOMATIC = ['connection', 'content-length', 'date', 'keep-alive'];

/**
 * Requests per second of `worksync workspace serve`, quota lifted, with one API key over 50 connections, against a bare
 * Fastify that answers the same bytes without looking anything up.
 *
 * `service.reads` gets one task, 200 with its body; `service.writes` creates bugs, each 201 after a commit with
 * `synchronous=FULL` on a real disk. The rows are counted against the answers.
 */
export const service: Bench = {
  figures: ['service.reads', 'service.writes'],
  run: () =>
    inFolder(async (folder) => {
      const serving = startWorksync([...SERVE, '--db', join(folder, 'service.db')]);
      try {
        const address = JSON.parse(await serving.says('\n')) as { url: string; apiKey: string };
        return await measureService(serving, folder, address);
      } finally {
        await serving.end('SIGKILL');
      }
    }),
};

const SERVE = ['workspace', 'serve', '--port', '0', '--quota', '0', '--burst', '0', '--json'];

const BUG = JSON.stringify({
  title: 'Login fails when the session has expired',
  description: 'Steps: open the page, wait for an hour, press the button. '.repeat(4),
  priority: 'high',
  labels: ['auth', 'web'],
});

async function measureService(
  serving: Running,
  folder: string,
  { url, apiKey }: { readonly url: string; readonly apiKey: string },
): Promise<Measured[]> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const created = await fetch(`${url}/workspaces/current/bugs`, { method: 'POST', headers, body: BUG });
  const answer = await created.text();
  const { taskId } = JSON.parse(answer) as { taskId: string };
  const peer = await startPeer('fastify', { answer });
  const contest = { ports: { ours: Number(new URL(url).port), bare: peer.port }, key: apiKey, connections: 50 };
  const read = { method: 'GET', path: `/api/v1/workspaces/current/tasks/${taskId}` };
  const write = { method: 'POST', path: '/api/v1/workspaces/current/bugs', body: BUG };
  const [reads, writes]: [Round[], Round[]] = [[], []];
  try {
    for (let round = 0; round < RUNS; round++) {
      reads.push(await measureRound(contest, read, round === 0));
      writes.push(await measureRound(contest, write, round === 0));
    }
  } finally {
    peer.child.kill('SIGKILL');
  }
  await serving.end();
  const made = writes.reduce((sum, { answered }) => sum + answered, 1);
  const database = new BetterSqlite(join(folder, 'service.db'), { readonly: true });
  const stored = database.prepare('select count(*) from tasks').pluck().get() as number;
  database.close();
  expectPremise(stored === made, `${made} answered, ${stored} stored`);
  return [...rowOf('service.reads', 0.4, reads), ...rowOf('service.writes', 0.2, writes)];
}
