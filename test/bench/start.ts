import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { get } from 'node:http';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../support/harness/listen.ts';
import { TOP } from '../support/harness/processes.ts';
import { type Bench, figure, figuresOf, inFolder, RUNS } from './bench.ts';
import {
  lookInto,
  PROGRAM,
  type Running,
  runAlone,
  runDaemon,
  spawnDaemon,
  stopDaemon,
  until,
  usageOf,
  VARIABLES,
  WORKSPACE,
} from './daemon.ts';
import { REPOSITORY } from './deliveries.ts';

/**
 * Seconds from spawning what `npm start` runs on 100 000 items and their deliveries to the first 200 of `/readyz`, and the
 * resident memory of that process after a second of rest.
 */
export const start: Bench = {
  figures: ['start', 'memory'],
  async run({ knownItems }) {
    const { folder } = await knownItems();
    // A daemon has run on these data before: it has held its rules against all items that are open.
    const looked = "select count(*) from meta where name = 'rules.looked_by'";
    await runDaemon({ folder }, () => until(() => lookInto(folder, looked) > 0));
    const runs: { seconds: number; megabytes: number }[] = [];
    for (let round = 0; round < RUNS; round++) runs.push(await startKnown(folder));
    return figuresOf(
      runs,
      { name: 'start', unit: 's', aim: 1, of: ({ seconds }) => seconds },
      { name: 'memory', unit: 'MB', aim: 150, of: ({ megabytes }) => megabytes },
    );
  },
};

async function startKnown(folder: string): Promise<{ seconds: number; megabytes: number }> {
  const port = await freePort();
  const begin = performance.now();
  const daemon = spawnDaemon({ folder, port });
  try {
    const seconds = await secondsUntilReady(port, begin, daemon);
    await pause(1_000);
    const megabytes = usageOf(daemon.pid as number).resident / 1e6;
    await stopDaemon(daemon, folder);
    return { seconds, megabytes };
  } finally {
    if (daemon.exitCode === null) daemon.kill('SIGKILL');
  }
}

/** Given up after this time, milliseconds. */
const LONGEST_START = 30_000;

async function secondsUntilReady(port: number, begin: number, daemon: { readonly exitCode: number | null }) {
  while (!(await isReady(port))) {
    if (daemon.exitCode !== null || performance.now() - begin > LONGEST_START) throw new Error('it did not start');
    await pause(2);
  }
  return (performance.now() - begin) / 1_000;
}

function isReady(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    get({ host: '127.0.0.1', port, path: '/readyz', agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    }).once('error', () => resolve(false));
  });
}

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
    const startsOf = (name: string, program: readonly string[]) =>
      inFolder(async (cache) =>
        figuresOf(
          await repeatWarm(() => startOnce(program, cache)),
          { name, unit: 's', aim: 2, of: ({ seconds }) => seconds },
          { name: `${name}.cpu`, unit: 's', aim: 1, of: ({ cpu }) => cpu },
        ),
      );
    const built = PROGRAM.map((word) => (word === 'src/main.ts' ? 'dist/lib/main.js' : word));
    return [...(await startsOf('start.service', PROGRAM)), ...(await startsOf('start.service.package', built))];
  },
};

/** The first run fills the compile cache, and is not counted. */
async function repeatWarm<Run>(runOnce: () => Promise<Run>): Promise<readonly Run[]> {
  const runs: Run[] = [];
  for (let round = 0; round <= RUNS; round++) runs.push(await runOnce());
  return runs.slice(1);
}

async function startOnce(program: readonly string[], cache: string): Promise<{ seconds: number; cpu: number }> {
  const port = await freePort();
  const own = { WORKSYNC_CONFIG_YAML: CONFIG, WORKSYNC_DATA: `:memory:bench-${port}`, WORKSYNC_PORT: String(port) };
  const env = { ...process.env, ...VARIABLES, NODE_COMPILE_CACHE: cache, ...own };
  const begin = performance.now();
  const daemon = spawn(process.execPath, program, { cwd: TOP, env, stdio: 'ignore' });
  const ended = once(daemon, 'exit');
  const seconds = await secondsUntilReady(port, begin, daemon);
  const { cpu } = usageOf(daemon.pid as number);
  daemon.kill('SIGTERM');
  await ended;
  return { seconds, cpu };
}

/** What commands take that are run all day, by containers, people and jobs, beside a daemon: CPU seconds of the whole process, and its largest memory. */
export const commands: Bench = {
  figures: ['command.status', 'command.healthcheck', 'command.healthcheck.memory', 'command.ci'],
  run: () =>
    runAlone({}, async (daemon) => {
      const data = ['--data', join(daemon.folder, 'data')];
      const status = await repeatWarm(() => runCommand(['status', ...data]));
      const health = await repeatWarm(() => runCommand(['healthcheck', ...data]));
      const given = await jobOf(daemon, data);
      const job = await repeatWarm(() => runCommand(['ci', '--pull-request', `${REPOSITORY}#7`], given));
      const row = (name: string, aim: number, runs: readonly Used[]) =>
        figure(
          { name, unit: 's', aim },
          runs.map(({ cpu }) => cpu),
        );
      return [
        row('command.status', 0.25, status),
        row('command.healthcheck', 0.1, health),
        row('command.ci', 0.3, job),
        ...figuresOf(health, { name: 'command.healthcheck.memory', unit: 'MB', aim: 60, of: (run) => run.megabytes }),
      ];
    }),
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
async function jobOf({ folder, port }: Running, data: readonly string[]): Promise<Record<string, string>> {
  const made = ['gateway', 'token', 'create', '--description', 'CI', '--json'];
  const args = ['src/main.ts', ...made, '--config', join(folder, `${WORKSPACE}.yaml`), ...data];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: TOP });
  const { secret } = JSON.parse(stdout) as { secret: string };
  return { WORKSYNC_URL: `http://127.0.0.1:${port}`, WORKSYNC_TOKEN: secret };
}

/** A command may end with another code than 0: the daemon knows no pull request here, and says so. */
async function runCommand(command: readonly string[], given: Record<string, string> = {}): Promise<Used> {
  const tell = `data:text/javascript,${encodeURIComponent(TELL)}`;
  const args = ['--import', tell, 'src/main.ts', ...command];
  const run = promisify(execFile)(process.execPath, args, {
    cwd: TOP,
    env: { ...process.env, ...VARIABLES, ...given },
  });
  const { stderr } = await run.catch((ended: { stderr: string }) => ended);
  const isFailed = stderr.includes('code:') && !stderr.includes('not_received');
  if (isFailed) throw new Error(stderr);
  return JSON.parse(stderr.slice(stderr.lastIndexOf('{'))) as Used;
}
