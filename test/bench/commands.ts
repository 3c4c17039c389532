import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Bench, RUNS } from './bench.ts';
import { announcedPort, logOf, spawnDaemon, stopDaemon, VARIABLES, WORKSPACE } from './daemon.ts';
import { figure } from './report.ts';

const PROJECT = join(import.meta.dirname, '../..');

/** What commands take that are run all day, by containers, people and jobs, beside a daemon: CPU seconds of the whole process, and its largest memory. */
export const commands: Bench = {
  figures: ['command.status', 'command.healthcheck', 'command.healthcheck.memory', 'command.ci'],
  async run() {
    const folder = mkdtempSync(join(tmpdir(), 'worksync-bench-'));
    const daemon = spawnDaemon({ folder, url: 'http://127.0.0.1:9/api/v1', apiKey: 'a key for the bench only' });
    try {
      const port = await announcedPort(daemon, folder);
      const status = await measure(['status', '--data', join(folder, 'data')]);
      const health = await measure(['healthcheck', '--data', join(folder, 'data')]);
      const job = await measure(['ci', '--pull-request', 'acme/app#7'], await jobOf(folder, port));
      await stopDaemon(daemon, folder);
      const seconds = (used: readonly Used[]) => used.map(({ cpu }) => cpu);
      return [
        figure({ name: 'command.status', unit: 's', better: 'lower', aim: 0.25 }, seconds(status)),
        figure({ name: 'command.healthcheck', unit: 's', better: 'lower', aim: 0.1 }, seconds(health)),
        figure({ name: 'command.ci', unit: 's', better: 'lower', aim: 0.3 }, seconds(job)),
        figure(
          { name: 'command.healthcheck.memory', unit: 'MB', better: 'lower', aim: 60 },
          health.map(({ megabytes }) => megabytes),
        ),
      ];
    } catch (error) {
      throw new Error(logOf(folder), { cause: error });
    } finally {
      if (daemon.exitCode === null) daemon.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

interface Used {
  readonly cpu: number;
  readonly megabytes: number;
}

/** Told by the process itself when it ends: nobody can ask the kernel about it afterwards. */
const TELL = `import { writeSync } from 'node:fs';
process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  writeSync(2, JSON.stringify({ cpu: (userCPUTime + systemCPUTime) / 1e6, megabytes: maxRSS * 1_024 / 1e6 }));
});`;

/** What a job is given: a gateway token, made as an operator makes it. */
async function jobOf(folder: string, port: number): Promise<Record<string, string>> {
  const made = ['gateway', 'token', 'create', '--description', 'CI', '--json'];
  const args = ['src/main.ts', ...made, '--config', join(folder, `${WORKSPACE}.yaml`), '--data', join(folder, 'data')];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: PROJECT });
  const { secret } = JSON.parse(stdout) as { secret: string };
  return { WORKSYNC_URL: `http://127.0.0.1:${port}`, WORKSYNC_TOKEN: secret };
}

/** The first run fills the compile cache, and is not counted. */
async function measure(command: readonly string[], given: Record<string, string> = {}): Promise<readonly Used[]> {
  const used: Used[] = [];
  for (let round = 0; round <= RUNS; round++) used.push(await runOnce(command, given));
  return used.slice(1);
}

/** A command may end with another code than 0: the daemon knows no pull request here, and says so. */
async function runOnce(command: readonly string[], given: Record<string, string>): Promise<Used> {
  const tell = `data:text/javascript,${encodeURIComponent(TELL)}`;
  const args = ['--import', tell, 'src/main.ts', ...command];
  const env = { ...process.env, ...VARIABLES, ...given };
  const run = promisify(execFile)(process.execPath, args, { cwd: PROJECT, env });
  const { stderr } = await run.catch((ended: { stderr: string }) => ended);
  const isFailed = stderr.includes('code:') && !stderr.includes('not_received');
  if (isFailed) throw new Error(stderr);
  return JSON.parse(stderr.slice(stderr.lastIndexOf('{'))) as Used;
}
