import { Command, CommanderError } from 'commander';
import { daemonOptions, environment, type Flags } from '../config/daemon-options.ts';
import { secretKeyOf } from '../config/secret-key.ts';
import { systemParts } from '../daemon/system-parts.ts';
import { CODES } from '../errors/codes.ts';
import { keepAlive } from '../lib/clock.ts';
import { systemRandom } from '../lib/random.ts';
import { createLogger } from '../observe/pino-logger.ts';
import type { Scrubber } from '../observe/scrubber.ts';
import type { Status } from '../operator/status.ts';
import type { Reached } from '../workspace-service/service.ts';
import { addBackfill } from './backfill.ts';
import { check, describeFindings } from './check.ts';
import { addConnections } from './connections.ts';
import { addConnectors } from './connectors.ts';
import { addData } from './data.ts';
import { addDocs } from './docs.ts';
import { addFiles } from './files.ts';
import { addGateway } from './gateway-token.ts';
import { addHeld } from './held.ts';
import { addHooks } from './hooks.ts';
import { addKeys } from './keys.ts';
import { addLinks } from './links.ts';
import { addLogin } from './login.ts';
import { describeOnce, once } from './once.ts';
import { askOwner, findLiving } from './owner.ts';
import { type PatienceFlags, withPatience } from './patience.ts';
import { addPlan } from './plan.ts';
import { addPullRequests } from './prs.ts';
import { addQuarantine } from './quarantine.ts';
import { addQuota } from './quota.ts';
import { reportError } from './report-error.ts';
import { run } from './run.ts';
import type { Session } from './session.ts';
import {
  likeOption,
  OF_HOOKS,
  OF_QUESTIONS,
  OF_WORK,
  print,
  refusingUnknown,
  type Setting,
  sessionOf,
  wholeNumber,
  withDaemonOptions,
} from './setting.ts';
import { describeStatus } from './status.ts';
import { addSweep } from './sweep.ts';
import { addTasks } from './tasks.ts';
import { addTranslate } from './translate.ts';
import { addConnectProvider } from './workspace-connect-provider.ts';
import { addWorkspaceToken } from './workspace-token.ts';

/** Exit code of `once` when something is left to do, and of `check` when something is wrong. */
const PARTIAL = 3;
const FAILED = 1;
/** How long `once` waits for the quota where nothing else is said, milliseconds: one long window. */
const LONGEST_ONCE = 900_000;

/**
 * The command line. Data goes to standard output, everything else to standard error.
 *
 * @returns the exit code; undefined where the process goes on until a signal ends it
 */
export async function main(argv: readonly string[], version: string, scrubber: Scrubber): Promise<number | undefined> {
  const setting = { version, scrubber, demoSecret: systemRandom().bytes(24).toString('base64url') };
  scrubber.add(setting.demoSecret);
  let exit: number | undefined;
  const program = build(setting, (code) => {
    exit = code;
  });
  const release = keepAlive();
  try {
    await program.parseAsync(argv);
    return exit;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    return reportError(error, (text) => scrubber.scrub(text));
  } finally {
    release();
  }
}

function build(setting: Setting, exit: (code: number) => void): Command {
  const program = new Command('worksync')
    .description(
      "Keeps a workspace's tasks in sync with pull requests and work items elsewhere, within a scarce request quota.",
    )
    .version(setting.version)
    .showHelpAfterError('Run "worksync --help" to see all commands.')
    .exitOverride()
    .addHelpText('after', EXIT_CODES);
  addRun(program, setting);
  addOnce(program, setting, exit);
  addDemo(program, setting, exit);
  addStatus(program, exit);
  addCheck(program, setting, exit);
  addLogin(program, exit);
  addData(program, exit);
  const commands = [addPlan, addQuota, addHeld, addQuarantine, addBackfill, addSweep, addHooks, addConnections];
  for (const add of commands) add(program, setting, exit);
  for (const add of [addConnectors, addTranslate]) add(program, setting, exit);
  for (const add of [addTasks, addLinks, addDocs, addPullRequests, addFiles, addKeys, addGateway])
    add(program, setting, exit);
  addWorkspace(program, setting, exit);
  addHealthcheck(program, exit);
  addGenerate(program, exit);
  return program;
}

const EXIT_CODES = `
Exit codes:
  0   done
  1   failed
  2   wrong usage
  3   done in part: something is left to do
  75  try again later: the data folder is in use, no daemon runs, the disk is full, the quota is used up
  77  a credential was refused
  78  the configuration is wrong, or the data folder cannot be used`;

function addRun(program: Command, setting: Setting): void {
  refusingUnknown(withDaemonOptions(program.command('run', { isDefault: true })))
    .description('run the daemon; without a workspace file of yours it runs the embedded demo')
    .addHelpText('after', '\nExample: worksync run --config config/workspaces --data data --port 8080')
    .action(async (flags: Flags) => {
      // The demo is a first look on a terminal: its summary is not to drown in log lines.
      const level = ({ secrets }: Session['config']) => (secrets.includes(setting.demoSecret) ? 'warn' : 'info');
      await run(sessionOf(setting, flags, level), setting.demoSecret);
    });
}

function addOnce(program: Command, setting: Setting, exit: (code: number) => void): void {
  withPatience(withDaemonOptions(program.command('once'), OF_WORK), LONGEST_ONCE)
    .description('poll, apply, send what the quota allows, and exit (exit code 3 if something is left)')
    .option('--json', 'print one JSON object per workspace')
    .action(async ({ json, timeout = LONGEST_ONCE, ...flags }: Flags & PatienceFlags & { json?: boolean }) => {
      const results = await once(
        sessionOf(setting, flags, () => 'warn'),
        timeout,
      );
      for (const result of results) print(json ? JSON.stringify(result) : describeOnce(result));
      exit(results.some(({ left, failures }) => left > 0 || failures.length > 0) ? PARTIAL : 0);
    });
}

function addDemo(program: Command, setting: Setting, exit: (code: number) => void): void {
  program
    .command('demo')
    .description('play the bundled deliveries on fresh data, print the result, and exit')
    .option('--json', 'print the result as one JSON object on the last line')
    .exitOverride()
    .action(async ({ json }: { json?: boolean }) => {
      const session = sessionOf(setting, { config: DEMO_CONFIG }, () => 'warn');
      const { demo, describeDemo } = await import('./demo.ts');
      const result = await demo(session, setting.demoSecret);
      print(describeDemo(result));
      if (json) print(JSON.stringify(result));
      exit(result.pending === 0 ? 0 : PARTIAL);
    });
}

const DEMO_CONFIG = `${import.meta.dirname}/../../config/default.yaml`;

function addStatus(program: Command, exit: (code: number) => void): void {
  withDaemonOptions(program.command('status'), OF_QUESTIONS)
    .description('show what the running daemon does, what waits, and what is wrong')
    .option('--json', 'print the whole status as JSON')
    .action(async ({ json, ...flags }: Flags & { json?: boolean }) => {
      const { data } = daemonOptions(flags, environment());
      const status = await askOwner<Status>(data, 'GET', '/status.json');
      print(json ? JSON.stringify(status) : describeStatus(status));
      exit(0);
    });
}

function addCheck(program: Command, setting: Setting, exit: (code: number) => void): void {
  withDaemonOptions(program.command('check'), OF_HOOKS)
    .description('check the configuration, the workspace and the providers; costs one request')
    .option('--offline', 'check only the configuration: sends no request, and needs no data folder')
    .option('--json', 'print one JSON object per finding')
    .action(async ({ json, offline, ...flags }: Flags & { json?: boolean; offline?: boolean }) => {
      const session = sessionOf(setting, flags, () => 'error');
      const findings = await check(session, { offline });
      print(json ? findings.map((finding) => JSON.stringify(finding)).join('\n') : describeFindings(findings));
      if (session.config.broken.length > 0) exit(CODES.config_invalid.exit);
      else exit(findings.some(({ level }) => level === 'error') ? FAILED : 0);
    });
}

function addHealthcheck(program: Command, exit: (code: number) => void): void {
  withDaemonOptions(program.command('healthcheck'), OF_QUESTIONS)
    .description('exit with 0 while the running daemon is alive; for HEALTHCHECK')
    .action(async (flags: Flags) => {
      const { data } = daemonOptions(flags, environment());
      await findLiving(data);
      exit(0);
    });
}

function addWorkspace(program: Command, setting: Setting, exit: (code: number) => void): void {
  const workspace = program.command('workspace').description('the reference workspace service').exitOverride();
  workspace
    .command('serve')
    .description('run the reference workspace service alone')
    .option('--port <number>', 'port to listen on; 0 takes any free one', wholeNumber, 8090)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--db <file>', 'database file', 'data/workspace.service.db')
    .option('--quota <requests>', 'requests per 15 minutes for all API keys; 0 lifts the limit', wholeNumber, 200)
    .option('--burst <requests>', 'requests per minute for all API keys; 0 lifts the limit', wholeNumber, 40)
    .option('--allow-private-webhooks', 'allow webhooks to this machine and to private networks')
    .option(
      '--public-url <address>',
      'address under which clients reach it; file addresses start with it',
      likeOption('publicUrl'),
    )
    .option(
      '--allowed-hosts <names>',
      'host names, besides localhost, under which clients reach it',
      likeOption('allowedHosts'),
    )
    .option('--trusted-proxies <ranges>', 'addresses of your reverse proxies', likeOption('trustedProxies'))
    .option('--json', 'print one JSON line when it listens; it contains key and token at the first start only')
    .addHelpText('after', '\nExample: worksync workspace serve --port 8090 --db data/workspace.service.db --json')
    .exitOverride()
    .action(async ({ json, db: file, port, host, quota: requests, burst, ...given }: ServeFlags) => {
      const { allowPrivateWebhooks = false, ...reached } = given;
      const logger = createLogger({ level: 'warn', scrubber: setting.scrubber });
      const key = secretKeyOf(environment());
      if (key) setting.scrubber.add(key.text);
      const own = { file, quota: { requests, burst }, secretKey: key?.key };
      const options = { ...own, port, host, allowPrivateWebhooks, reached };
      const { describeServed, serveWorkspace } = await import('./workspace-serve.ts');
      const served = await serveWorkspace(options, systemParts(logger, setting.version, setting.scrubber));
      print(json ? JSON.stringify(served) : describeServed(served, file));
    });
  addWorkspaceToken(workspace, exit);
  addConnectProvider(workspace, setting, exit);
}

interface ServeFlags extends Reached {
  readonly port: number;
  readonly host: string;
  readonly db: string;
  readonly quota: number;
  readonly burst: number;
  readonly allowPrivateWebhooks?: boolean;
  readonly json?: boolean;
}

function addGenerate(program: Command, exit: (code: number) => void): void {
  program
    .command('generate')
    .description(
      'write the files that are generated from the code: config/schema.json, config/reference.md, config/openapi.json',
    )
    .option('--check', 'only say whether they are up to date')
    .exitOverride()
    .action(async ({ check: only }: { check?: boolean }) => {
      const { generate } = await import('./generate.ts');
      const changed = generate(only ?? false);
      print(changed.length === 0 ? 'up to date' : `written: ${changed.join(', ')}`);
      exit(0);
    });
}
