import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isTooOld } from '../src/platform/lib/oldest-node.ts';
import { type RecordedGithub, sendOpenedPull, startRecordedGithub } from './readme/github.ts';
import { commandsIn, comparable, firstStartIn, secondStartIn } from './readme/page.ts';
import { openTerminal, type Program, type Terminal } from './readme/terminal.ts';
import { TOP } from './supply/lock.ts';

/**
 * Runs each command of README, in order, in a clone of the commit and with the Node of the PATH, and compares what it prints with
 * README. GitHub's recorded answers come from loopback, through the option `apiUrl`. Prints the time from the clone to the first
 * mirrored pull request.
 */

/** Commands that do not run here, with the reason. */
export const LEFT_OUT: readonly (readonly [command: RegExp, reason: string])[] = [
  [/^docker /, 'needs a container engine; the job "image" of ci.yaml builds and starts the image'],
  [/^npx /, 'needs a release in the registry'],
  [/^npm ci && npm test$/, 'the caller runs the tests'],
];

/** Above this number of new records, the others need approval. */
const HELD_ABOVE = 200;
const HELD = 3;
/** Milliseconds until a condition counts as failed. */
const PATIENCE = 60_000;
const RETRY = 500;
/** Exit code of a command that a person interrupts at a question. */
const ABORTED = 1;
/** Exit code of the package on a Node that is too old. */
const TOO_OLD = 78;
/** Exit code of `init` while values are missing. */
const UNFINISHED = 3;

interface Walk {
  readonly terminal: Terminal;
  readonly folder: string;
  readonly scratch: string;
  readonly readme: string;
  readonly port: number;
  /** GitHub with more pull requests than are recorded without approval, and with one. */
  readonly github: { readonly large: RecordedGithub; readonly small: RecordedGithub };
  /** Steps from the clone to the first mirrored pull request, and the milliseconds of each. */
  readonly times: Map<string, number>;
  daemon?: Program;
  /** The workspace of "Your workspace, your repositories". */
  workspace?: Workspace;
  /** Waits until the daemon works as README says after the steps so far. */
  isReady: (daemon: Program) => Promise<void>;
}

interface Workspace {
  readonly url: string;
  readonly apiKey: string;
  /** Key of its only task. */
  readonly task: string;
}

/** How to run each command of README. */
export const STEPS: Readonly<Record<string, (walk: Walk, command: string) => Promise<void>>> = {
  async 'npm ci && npm start'(walk, command) {
    await timed(walk, command, async () => {
      walk.daemon = walk.terminal.start(command);
      await printsDemo(walk, walk.daemon, firstStartIn(walk.readme));
    });
    walk.isReady = (daemon) => printsDemo(walk, daemon, secondStartIn(walk.readme));
  },

  /** Only its first question: the steps below start from examples. */
  async 'npm run -s worksync -- init'({ terminal }, command) {
    const init = terminal.start(command);
    await init.prints('[github]: ');
    await init.interrupt(ABORTED);
  },

  async 'npm start'(walk, command) {
    await stopDaemon(walk);
    walk.daemon = walk.terminal.start(command);
    await walk.isReady(walk.daemon);
  },

  async 'npm run -s worksync -- login'({ terminal, port }, command) {
    expectText(await terminal.run(command), new RegExp(`^http://127\\.0\\.0\\.1:${port}/login\\?link=[\\w-]+$`, 'm'));
  },

  async 'npm run demo'({ terminal, readme }, command) {
    const printed = await terminal.run(command);
    for (const pattern of [/(\d+) signed/, /(\d+) pull requests/, /(\d+) links/, /(\d+) requests/]) {
      const [, count] = pattern.exec(firstStartIn(readme)) ?? [];
      const [, printedCount] = pattern.exec(printed) ?? [];
      if (count !== printedCount) throw new Error(`README shows ${count} for ${pattern.source}, the demo:\n${printed}`);
    }
  },

  async 'npm run -s worksync -- trigger github-demo opened --task BUG-3 --yes'({ terminal }, command) {
    expectText(await terminal.run(command), /^The daemon answered 202\.$/m);
  },

  async 'npm run -s worksync -- links explain BUG-3'(walk, command) {
    await until(walk, command, /BUG-3 +review +\(worksync, standard: open,/);
  },

  async 'npm run -s worksync -- init --from github-public --name trial --offline'(walk, command) {
    await stopDaemon(walk);
    // Nothing answers there, as without a network.
    expectText(await walk.terminal.run(`${command} ${withApiUrl('http://127.0.0.1:9')}`), /^Next: start the daemon/m);
    expectLive(walk, 'trial');
    walk.isReady = async (daemon) => {
      await daemon.prints('public (GitHub): webhooks at /webhooks/trial/public, polls');
    };
  },

  async 'npm run -s worksync -- trigger public opened --id 1 --yes'(walk, command) {
    expectText(await walk.terminal.run(command), /^The daemon answered 202\.$/m);
    await until(walk, 'npm run -s worksync -- status', /connections_failing(?:.|\n)* synced +1 pull request,/);
  },

  async 'npm run -s worksync -- forget trial --yes'(walk, command) {
    await stopDaemon(walk);
    rmSync(join(walk.folder, 'config/workspaces/trial.yaml'));
    expectText(await walk.terminal.run(command), /^Deleted \d+ rows of trial\.$/m);
  },

  async 'npm run -s worksync -- init --from github-public --name public --set octokit/webhooks.js=<owner>/<repository>'(
    walk,
    command,
  ) {
    const recorded = withApiUrl(walk.github.large.url);
    await timed(walk, 'init', async () => {
      const printed = await walk.terminal.run(`${command.replace('<owner>/<repository>', 'acme/api')} ${recorded}`);
      expectText(printed, /public: acme\/api: can be read/, /^Next: start the daemon with "npm start"\.$/m);
      expectLive(walk, 'public');
    });
    walk.isReady = (daemon) =>
      timed(walk, 'npm start', async () => {
        await daemon.prints('public (GitHub): webhooks at /webhooks/public/public, polls');
        const mirrored = new RegExp(` [1-9]\\d* of ${HELD_ABOVE + HELD} pull requests`);
        await until(walk, 'npm run -s worksync -- status', mirrored);
      });
  },

  async 'npm run -s worksync -- held release'({ terminal }, command) {
    expectText(await terminal.run(command), new RegExp(`^released: ${HELD} changes$`, 'm'));
  },

  async 'npm run -s worksync -- init --from github --name team --url https://<your workspace>/api/v1'(walk, command) {
    walk.workspace = await startWorkspace(walk);
    const named = command.replace('https://<your workspace>/api/v1', walk.workspace.url);
    const printed = await walk.terminal.run(named, UNFINISHED);
    expectText(printed, /^Next: replace in config\/team\.yaml and \.env: .*\bWORKSYNC_API_KEY, GITHUB_TOKEN\. /m);
    fillIn(walk, printed);
  },

  async 'npm run -s worksync -- init --name team'(walk, command) {
    const printed = await walk.terminal.run(command);
    expectText(printed, /team: workspace: .* accepts the key/, /team: main: acme\/api: can be read/);
    expectLive(walk, 'team');
    walk.isReady = async (daemon) => {
      await daemon.prints('main (GitHub): webhooks at /webhooks/team/main, polls');
      await until(
        walk,
        'npm run -s worksync -- status',
        / main +github +(?:no recent|last) webhook.* polled every 15 min, last /,
      );
    };
  },

  async 'npm run -s worksync -- check'({ terminal }, command) {
    const printed = await terminal.run(command);
    expectText(
      printed,
      /^ok +team: config\/workspaces\/team\.yaml is valid/m,
      /team: workspace: /,
      /team: main: acme\/api: /,
    );
    const withoutRemedy = /^(?:warning|ERROR) .*\n(?! +remedy: )/m.exec(`${printed}\n`);
    if (withoutRemedy) throw new Error(`README says that check names a remedy for each problem:\n${printed}`);
  },

  async 'npm run -s worksync -- status'({ terminal }, command) {
    const printed = await terminal.run(command);
    expectText(printed, /^workspace public /m, / public +github /, /^workspace team /m, / main +github /);
  },

  async 'npm run -s worksync -- links explain <item or task>'(walk, command) {
    const { task = '' } = walk.workspace ?? {};
    const secret = settingOf(walk, 'GITHUB_WEBHOOK_SECRET_TEAM');
    await sendOpenedPull(`http://127.0.0.1:${walk.port}/webhooks/team/main`, secret, `${task.toLowerCase()}-fix`);
    // Two workspaces run here, so the command must name one.
    const named = (target: string) => `${command.replace('<item or task>', target)} --workspace team`;
    const linked = new RegExp(`${task}: linked\n +because task-key: "${task.toLowerCase()}" in branch`);
    await until(walk, named(task), linked);
    expectText(await walk.terminal.run(named("'acme/api#12'")), new RegExp(`${task}: linked`), /BUG-12/);
    await stopDaemon(walk);
  },

  async 'npm run -s worksync -- api --help'({ terminal }, command) {
    expectText(await terminal.run(command), /^ {2}createBug /m);
  },

  async 'npm run new:connector <id>'({ terminal }, command) {
    expectText(await terminal.run(command.replace('<id>', 'my-tracker')), /^ {2}src\/connectors\/my-tracker\//m);
  },
};

/** The flag of `init` that adds the option `apiUrl` to the connection. */
function withApiUrl(url: string): string {
  const line = 'connector: github';
  return `--set '${line}=${line}\n    apiUrl: ${url}'`;
}

/** Adds the time of a step on the way to the first mirrored pull request. */
async function timed(walk: Walk, step: string, run: () => Promise<void>): Promise<void> {
  const startedAt = performance.now();
  await run();
  walk.times.set(step, performance.now() - startedAt);
}

async function printsDemo({ port }: Walk, daemon: Program, expected: string): Promise<void> {
  const printed = await daemon.prints(expected.slice(expected.lastIndexOf('\n') + 1));
  const start = printed.indexOf('worksync runs.');
  const compared = comparable(printed.slice(start), port);
  if (compared !== expected) throw new Error(`README shows:\n${expected}\n\n\`npm start\` printed:\n${compared}`);
}

async function stopDaemon(walk: Walk): Promise<void> {
  await walk.daemon?.interrupt();
  delete walk.daemon;
}

/** Repeats a command, which may fail meanwhile, until it prints what is expected. */
async function until({ terminal }: Pick<Walk, 'terminal'>, command: string, expected: RegExp): Promise<void> {
  const last = performance.now() + PATIENCE;
  for (;;) {
    const printed = await terminal.run(command).catch((error: Error) => error.message);
    if (expected.test(printed)) return;
    if (performance.now() > last) throw new Error(`${command} never printed ${expected.source}:\n${printed}`);
    await sleep(RETRY);
  }
}

function expectText(printed: string, ...patterns: readonly RegExp[]): void {
  const missing = patterns.find((pattern) => !pattern.test(printed));
  if (missing) throw new Error(`expected ${missing.source}, printed:\n${printed}`);
}

/** The configuration is where the daemon reads it, and no draft is left. */
function expectLive({ folder }: Walk, name: string): void {
  if (!existsSync(join(folder, `config/workspaces/${name}.yaml`)) || existsSync(join(folder, `config/${name}.yaml`)))
    throw new Error(`init left the draft config/${name}.yaml`);
}

/** Starts the workspace that the second `init` connects, beside the clone. */
async function startWorkspace({ terminal, scratch }: Walk): Promise<Workspace> {
  const file = join(scratch, 'workspace.db');
  const service = terminal.start(`npm run -s worksync -- workspace serve --port 0 --db '${file}' --json`);
  const printed = await service.prints('}\n');
  const { url, apiKey } = JSON.parse(printed.slice(printed.indexOf('{'))) as { url: string; apiKey: string };
  return { url, apiKey, task: await createBug(url, apiKey) };
}

/** Edits draft and `.env` as README tells a person to. */
function fillIn({ folder, workspace, github }: Walk, printed: string): void {
  const draft = join(folder, 'config/team.yaml');
  const [, placeholder = ''] = / and \.env: ([\w/-]+), /.exec(printed) ?? [];
  const recorded = `    apiUrl: ${github.small.url}\n`;
  const content = readFileSync(draft, 'utf8').replace(placeholder, 'acme/api');
  const withUrl = content.replace(/^ +token: .*\n/m, (line) => `${line}${recorded}`);
  writeFileSync(draft, withUrl);
  const file = join(folder, '.env');
  const values: Readonly<Record<string, string | undefined>> = {
    WORKSYNC_API_KEY: workspace?.apiKey,
    GITHUB_TOKEN: 'github_pat_of_the_readme_test',
  };
  const fill = (line: string, name: string) => `${line}${values[name] ?? ''}`;
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^(\w+)=$/gm, fill));
}

function settingOf({ folder }: Walk, name: string): string {
  const [, value] = new RegExp(`^${name}=(.+)$`, 'm').exec(readFileSync(join(folder, '.env'), 'utf8')) ?? [];
  if (value === undefined) throw new Error(`init wrote no ${name} into .env`);
  return value;
}

/** Resolves with the key of the task. */
async function createBug(url: string, apiKey: string): Promise<string> {
  const response = await fetch(`${url}/workspaces/current/bugs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ title: 'It breaks' }),
  });
  if (response.status !== 201) throw new Error(`the workspace created no task: ${response.status}`);
  return ((await response.json()) as { key: string }).key;
}

/** The port that README shows, or another one where that is taken. */
async function choosePort(): Promise<number> {
  for (const port of [8080, 0]) {
    const server = createServer();
    const chosen = await new Promise<number>((resolve) => {
      server.once('error', () => resolve(0));
      server.listen(port, '127.0.0.1', () => resolve((server.address() as { port: number }).port));
    });
    await new Promise((resolve) => server.close(resolve));
    if (chosen !== 0) return chosen;
  }
  throw new Error('no port is free');
}

function clone(folder: string): void {
  const git = (cwd: string, ...args: readonly string[]) => execFileSync('git', args, { cwd, encoding: 'utf8' }).trim();
  git(TOP, 'clone', '--quiet', TOP, folder);
  const [wanted, cloned] = [TOP, folder].map((each) => git(each, 'rev-parse', 'HEAD'));
  if (wanted !== cloned) throw new Error(`the clone has ${cloned}, not ${wanted}`);
  print(`commit ${wanted}`);
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

async function main(): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), 'worksync-readme-'));
  const folder = join(scratch, 'worksync');
  const port = await choosePort();
  const settings: Record<string, string> = port === 8080 ? {} : { WORKSYNC_PORT: String(port) };
  const terminal = openTerminal(folder, scratch, settings);
  const github = { large: await startRecordedGithub(HELD_ABOVE + HELD), small: await startRecordedGithub(1) };
  const cleanUp = async () => {
    await terminal.close();
    github.large.close();
    github.small.close();
    // It takes half a minute on some disks, so nothing waits for it.
    spawn('rm', ['-rf', scratch], { stdio: 'ignore', detached: true }).unref();
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void cleanUp().finally(() => process.exit(1)));
  try {
    const startedAt = performance.now();
    clone(folder);
    const times = new Map([['git clone', performance.now() - startedAt]]);
    const readme = readFileSync(join(folder, 'README.md'), 'utf8');
    const walk: Walk = { terminal, folder, scratch, readme, port, github, times, isReady: async () => undefined };
    await walkThrough(walk);
    const whole = [...times.values()].reduce((sum, each) => sum + each, 0);
    const parts = Array.from(times, ([step, ms]) => `${step} ${seconds(ms)}`).join(', ');
    print(`clone to a mirrored pull request: ${seconds(whole)} (${parts})`);
    await walkPackage(walk);
  } finally {
    await cleanUp();
  }
}

/**
 * Installs the package, as a release names it, into an empty folder, and runs it up to a mirrored pull request. The Node of the PATH may
 * be too old for it: then the package says so, and the Node of the clone runs it.
 */
async function walkPackage({ terminal, folder, scratch, port, github }: Walk): Promise<void> {
  const built = await terminal.run(
    "npm run -s build && node_modules/.bin/node .ci/release.ts package acme/worksync && npm pack --silent ./dist --pack-destination '..'",
  );
  const empty = join(scratch, 'package');
  mkdirSync(empty);
  const path = `${join(folder, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}`;
  const settings = { WORKSYNC_PORT: String(port) };
  const [withOwnNode, withNode] = [settings, { ...settings, PATH: path }].map((each) =>
    openTerminal(empty, empty, each),
  ) as [Terminal, Terminal];
  const times = new Map<string, number>();
  const started = performance.now();
  try {
    await withOwnNode.run(`npm install --prefer-offline --no-audit --no-fund '../${built.trim().split('\n').at(-1)}'`);
    times.set('npm install', performance.now() - started);
    if (isTooOld((await withOwnNode.run('node --version')).trim().slice(1)))
      expectText(await withOwnNode.run('npx @acme/worksync --version', TOO_OLD), /^ {2}remedy: Install a newer Node/m);
    const run = performance.now();
    const flags = `--from github-public --name public --set octokit/webhooks.js=acme/api ${withApiUrl(github.small.url)}`;
    const printed = await withNode.run(`npx @acme/worksync init ${flags}`);
    expectText(printed, /^Next: start the daemon with "worksync run"\.$/m);
    await withNode
      .start('npx @acme/worksync run')
      .prints('public (GitHub): webhooks at /webhooks/public/public, polls');
    await until({ terminal: withNode }, 'npx @acme/worksync status', / synced +1 pull request,/);
    times.set('init, run', performance.now() - run);
  } finally {
    await withOwnNode.close();
    await withNode.close();
  }
  const whole = [...times.values()].reduce((sum, each) => sum + each, 0);
  const parts = Array.from(times, ([step, ms]) => `${step} ${seconds(ms)}`).join(', ');
  print(`packed package to a mirrored pull request: ${seconds(whole)} (${parts})`);
}

async function walkThrough(walk: Walk): Promise<void> {
  const commands = commandsIn(walk.readme);
  const reasonOf = (command: string) => LEFT_OUT.find(([pattern]) => pattern.test(command))?.[1];
  const unknown = commands.find((command) => !STEPS[command] && !reasonOf(command));
  if (unknown) throw new Error(`README has a command that .ci/readme.ts cannot run: ${unknown}`);
  print(`node ${await walk.terminal.run('node --version')}`.trim());
  for (const command of commands) {
    const startedAt = performance.now();
    await STEPS[command]?.(walk, command);
    const reason = reasonOf(command);
    print(`${reason ? 'left out' : seconds(performance.now() - startedAt).padStart(8)}  ${command}`);
    if (reason) print(`          ${reason}`);
  }
}

if (import.meta.main)
  await main().catch((error: Error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
