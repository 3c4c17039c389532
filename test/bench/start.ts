import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../support/harness/listen.ts';
import { type Ended, TOP } from '../support/harness/processes.ts';
import { type Bench, expectPremise, figureOf, figuresOf, inFolder, type Measured, RUNS } from './bench.ts';
import {
  expectNoRequests,
  lookInto,
  PROGRAM,
  type Running,
  runAlone,
  runDaemon,
  spawnDaemon,
  until,
  usageOf,
  VARIABLES,
  WORKSPACE,
} from './daemon.ts';
import { REPOSITORY } from './deliveries.ts';
import { ITEMS } from './known-items.ts';

/**
 * The cost of a start on this machine, for comparison: an empty program of Node, from its spawn to its end, and a server of the
 * packages that worksync is built on, until it answers the first request.
 */
export const yardsticks: Bench = {
  figures: ['yardstick.node', 'yardstick.server'],
  run: () =>
    inFolder(async (cache) => [
      ...rowsOf('yardstick.node', await repeatWarm(() => runNode(EMPTY))),
      ...rowsOf('yardstick.server', await repeatWarm(() => startYardstick(cache))),
    ]),
};

/** The cost of a process until it was ready or had ended: seconds of the wall clock and of CPU; and its memory. */
interface Used {
  readonly seconds: number;
  readonly cpu: number;
  readonly megabytes: number;
}

function rowsOf(name: string, runs: readonly Used[]): Measured[] {
  return figuresOf(
    runs,
    { name, unit: 's', of: ({ seconds }) => seconds },
    { name: `${name}.cpu`, unit: 's', of: ({ cpu }) => cpu },
    { name: `${name}.memory`, unit: 'MB', of: ({ megabytes }) => megabytes },
  );
}

/** A process, and right after it a yardstick. */
type Round = Readonly<Record<'own' | 'yardstick', Used>>;

function rowOf(rounds: readonly Round[], name: string, quantity: keyof Used, aim: number): Measured {
  const unit = quantity === 'megabytes' ? 'MB' : 's';
  const read = { of: ({ own }: Round) => own[quantity], against: ({ yardstick }: Round) => yardstick[quantity] };
  return figureOf(rounds, { name, unit, aim, yardstick: true, ...read });
}

/** The first run fills the compile cache, and is not counted. */
async function repeatWarm<Run>(runOnce: () => Promise<Run>): Promise<readonly Run[]> {
  const runs: Run[] = [];
  for (let round = 0; round <= RUNS; round++) runs.push(await runOnce());
  return runs.slice(1);
}

const repeatBeside = (runOnce: () => Promise<Used>, yardstick: () => Promise<Used>) =>
  repeatWarm(async (): Promise<Round> => ({ own: await runOnce(), yardstick: await yardstick() }));

/**
 * Seconds from spawning what `npm start` runs on 100 000 items and their deliveries to the first 200 of `/readyz`, and the
 * resident memory of that process after a second of rest.
 */
export const start: Bench = {
  figures: ['start', 'memory'],
  async run({ knownItems }) {
    const folder = await knownItems();
    // A daemon has run on these data before: it has held its rules against all items that are open.
    const looked = "select count(*) from meta where name = 'rules.looked_by'";
    await runDaemon({ folder }, () => until(() => lookInto(folder, looked) > 0));
    const startKnown = () =>
      startOnce(
        (port) => spawnDaemon({ folder, port }),
        () => expectNoRequests({ folder }),
      );
    const rounds = await inFolder((cache) => repeatBeside(startKnown, () => startYardstick(cache)));
    expectPremise(lookInto(folder, 'select count(*) from items') === ITEMS, `${ITEMS} items are there`);
    return [rowOf(rounds, 'start', 'seconds', 1), rowOf(rounds, 'memory', 'megabytes', 150)];
  },
};

/** A server from its spawn to the first 200 of `/readyz`, and its memory after a second of rest. Throws if it does not end in order. */
async function startOnce(spawnAt: (port: number) => ChildProcess, check?: () => Promise<void>): Promise<Used> {
  const port = await freePort();
  const begin = performance.now();
  const server = spawnAt(port);
  const ended = once(server, 'exit');
  try {
    const isReady = () =>
      fetch(`http://127.0.0.1:${port}/readyz`).then(
        ({ ok }) => ok,
        () => server.exitCode !== null,
      );
    await until(isReady, 2);
    const seconds = (performance.now() - begin) / 1_000;
    const { cpu } = usageOf(server.pid as number);
    await pause(1_000);
    const megabytes = usageOf(server.pid as number).resident / 1e6;
    await check?.();
    server.kill('SIGTERM');
    const [code] = await ended;
    if (code !== 0) throw new Error(`a server ended with ${code}`);
    return { seconds, cpu, megabytes };
  } finally {
    server.kill('SIGKILL');
  }
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
      inFolder(async (cache) => {
        const service = (port: number) => spawnNode(program, cache, port, { WORKSYNC_CONFIG_YAML: CONFIG });
        const rounds = await repeatBeside(
          () => startOnce(service),
          () => startYardstick(cache),
        );
        return [rowOf(rounds, name, 'seconds', 2), rowOf(rounds, `${name}.cpu`, 'cpu', 1)];
      });
    const built = PROGRAM.map((word) => (word === 'src/main.ts' ? 'dist/lib/main.js' : word));
    return [...(await startsOf('start.service', PROGRAM)), ...(await startsOf('start.service.package', built))];
  },
};

function spawnNode(program: readonly string[], cache: string, port: number, given: object = {}): ChildProcess {
  const own = { WORKSYNC_DATA: `:memory:bench-${port}`, WORKSYNC_PORT: String(port), ...given };
  const env = { ...process.env, ...VARIABLES, NODE_COMPILE_CACHE: cache, ...own };
  return spawn(process.execPath, program, { cwd: TOP, env, stdio: 'ignore' });
}

function startYardstick(cache: string): Promise<Used> {
  return startOnce((port) => spawnNode(['test/bench/peers/packages.ts'], cache, port));
}

/** The cost of commands that containers, people and jobs run all day beside a daemon: CPU seconds, and peak memory. */
export const commands: Bench = {
  figures: ['command.status', 'command.healthcheck', 'command.healthcheck.memory', 'command.ci'],
  run: () =>
    runAlone({}, async (daemon) => {
      const data = ['--data', join(daemon.folder, 'data')];
      const repeat = (args: readonly string[], expected: string, given?: Record<string, string>) =>
        repeatBeside(
          () => runNode(['src/main.ts', ...args], expected, given),
          () => runNode(EMPTY),
        );
      const health = await repeat(['healthcheck', ...data], '');
      const job = ['ci', '--pull-request', `${REPOSITORY}#7`];
      return [
        rowOf(await repeat(['status', ...data], WORKSPACE), 'command.status', 'cpu', 0.25),
        rowOf(health, 'command.healthcheck', 'cpu', 0.1),
        // The daemon knows no such pull request, and says so.
        rowOf(await repeat(job, 'not_received', await jobOf(daemon, data)), 'command.ci', 'cpu', 0.3),
        rowOf(health, 'command.healthcheck.memory', 'megabytes', 60),
      ];
    }),
};

/**
 * Told by the process itself when it ends: nobody can ask the kernel about it afterwards. Not its `maxRSS`, which counts the
 * memory of the process that spawned it too.
 */
const TELL = `import { readFileSync, writeSync } from 'node:fs';
process.on('exit', () => {
  const { user, system } = process.cpuUsage();
  const peak = /VmHWM:\\s+(\\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))[1];
  writeSync(2, JSON.stringify({ cpu: (user + system) / 1e6, megabytes: peak * 1_024 / 1e6 }));
});`;
const EMPTY = ['--eval', ''];

async function jobOf({ folder, port }: Running, data: readonly string[]): Promise<Record<string, string>> {
  const made = ['gateway', 'token', 'create', '--description', 'CI', '--json'];
  const args = ['src/main.ts', ...made, '--config', join(folder, `${WORKSPACE}.yaml`), ...data];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: TOP });
  const { secret } = JSON.parse(stdout) as { secret: string };
  return { WORKSYNC_URL: `http://127.0.0.1:${port}`, WORKSYNC_TOKEN: secret };
}

async function runNode(program: readonly string[], expected = '', given: Record<string, string> = {}): Promise<Used> {
  const tell = `data:text/javascript,${encodeURIComponent(TELL)}`;
  const env = { ...process.env, ...VARIABLES, ...given };
  const begin = performance.now();
  const run = promisify(execFile)(process.execPath, ['--import', tell, ...program], { cwd: TOP, env });
  const { code, stdout, stderr } = await run.then(
    (ended) => ({ ...ended, code: 0 }),
    (failed: Ended) => failed,
  );
  const seconds = (performance.now() - begin) / 1_000;
  const isExpected = expected === '' ? code === 0 : (stdout + stderr).includes(expected);
  expectPremise(isExpected, `${program.join(' ')} prints ${expected}: ${code} ${stdout} ${stderr}`);
  return { seconds, ...(JSON.parse(stderr.slice(stderr.lastIndexOf('{'))) as Omit<Used, 'seconds'>) };
}
