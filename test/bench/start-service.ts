import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../support/harness/listen.ts';
import { type Bench, RUNS } from './bench.ts';
import { PROGRAM, VARIABLES } from './daemon.ts';
import { figure } from './report.ts';
import { isReady } from './start.ts';

const TOP = join(import.meta.dirname, '../..');

const CONFIG = `name: ci
workspace: { url: "http://127.0.0.1:9/api/v1", apiKey: a-key-for-the-bench-only }
connections:
  github: { connector: github, repositories: [acme/app], webhookSecrets: a-secret-of-sixteen-or-more, poll: off }
`;

/**
 * A service of a CI job, which gets all by variables and keeps its data in memory: seconds from its spawn to the first 200 of
 * `/readyz`, and its CPU seconds until then; from source, and as the package has it. Compiled code is there already.
 */
export const startService: Bench = {
  figures: ['start.service', 'start.service.cpu', 'start.service.package', 'start.service.package.cpu'],
  async run() {
    execFileSync(process.execPath, ['.ci/build.ts'], { cwd: TOP, stdio: 'ignore' });
    const source = await starts(PROGRAM);
    const built = await starts(PROGRAM.map((word) => (word === 'src/main.ts' ? 'dist/lib/main.js' : word)));
    const figuresOf = (name: string, runs: readonly Started[]) => [
      figure(
        { name, unit: 's', better: 'lower', aim: 2 },
        runs.map(({ seconds }) => seconds),
      ),
      figure(
        { name: `${name}.cpu`, unit: 's', better: 'lower', aim: 1 },
        runs.map(({ cpu }) => cpu),
      ),
    ];
    return [...figuresOf('start.service', source), ...figuresOf('start.service.package', built)];
  },
};

interface Started {
  readonly seconds: number;
  readonly cpu: number;
}

/** The first run fills the compile cache, and is not counted. */
async function starts(program: readonly string[]): Promise<readonly Started[]> {
  const cache = mkdtempSync(join(tmpdir(), 'worksync-bench-'));
  const runs: Started[] = [];
  for (let round = 0; round <= RUNS; round++) runs.push(await startOnce(program, cache));
  rmSync(cache, { recursive: true });
  return runs.slice(1);
}

async function startOnce(program: readonly string[], cache: string): Promise<Started> {
  const port = await freePort();
  const own = { WORKSYNC_CONFIG_YAML: CONFIG, WORKSYNC_DATA: `:memory:bench-${port}`, WORKSYNC_PORT: String(port) };
  const env = { ...process.env, ...VARIABLES, NODE_COMPILE_CACHE: cache, ...own };
  const begin = performance.now();
  const daemon = spawn(process.execPath, program, { cwd: TOP, env, stdio: 'ignore' });
  const ended = once(daemon, 'exit');
  while (!(await isReady(port))) {
    if (daemon.exitCode !== null) throw new Error(`the daemon ended with ${daemon.exitCode}`);
    await pause(2);
  }
  const seconds = (performance.now() - begin) / 1_000;
  const cpu = cpuSeconds(daemon.pid as number);
  daemon.kill('SIGTERM');
  await ended;
  return { seconds, cpu };
}

/** As the kernel counts it, in hundredths: user and system time, the 14th and 15th field. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
