import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import type { Draft, FirstConfig } from '../../admin/installation/init.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { sleep, systemClock } from '../../platform/lib/clock.ts';
import { shellWord } from '../../platform/lib/own-program.ts';
import {
  type AddCommands,
  collect,
  durationOption,
  likeOption,
  print,
  refusingUnknown,
  type Setting,
  say,
} from '../command.ts';
import { span } from '../words.ts';
import type { Question } from './init-questions.ts';

const STANDARD = { from: 'github', name: 'team' };

const HELP = `
On a terminal the command asks for what no flag says. It writes a draft, config/<name>.yaml, and .env with the variables that the
draft needs. It makes webhook secrets that you choose yourself. When nothing is left to fill in, it tests workspace and vendors, and
moves the draft to config/workspaces/. Run it again with the same --name to go on with a draft. What --with names goes to deploy/.

Exit codes: 0 the configuration is in use; 1 the test failed, or a file is there already; 2 wrong usage; 3 values are missing.

Example: worksync init --from github --name team --url https://work.example.com/api/v1`;

interface InitFlags {
  readonly from?: string;
  readonly name?: string;
  readonly url?: string;
  readonly with?: readonly string[];
  readonly set?: readonly string[];
  readonly folder: string;
  readonly force?: boolean;
  readonly offline?: boolean;
  readonly json?: boolean;
}

/** The state of the draft after the command. */
interface Outcome {
  readonly name: string;
  readonly written: readonly string[];
  /** Placeholders and variables to fill in; empty if the draft is complete. */
  readonly missing: readonly string[];
  readonly findings: readonly Finding[];
  /** Whether worksync reads the configuration from now on. */
  readonly isLive: boolean;
}

type Finding = import('../../connectors/connector.ts').Finding;

/** `worksync init`: a first configuration, and what it needs at a vendor. */
export const addInit: AddCommands = (program, setting) => {
  const group = program.command('init').description('set worksync up: workspace, github-app').exitOverride();
  refusingUnknown(group.command('workspace', { isDefault: true }))
    .description('write a first configuration from an example, and test it (the default)')
    .option('--from <example>', `example to start from, such as gitlab, jira or github-app (default: ${STANDARD.from})`)
    .option('--name <name>', `name of the workspace and of its file (default: ${STANDARD.name})`)
    .option('--url <address>', 'address of the workspace API, ending in /api/v1')
    .option(
      '--set <placeholder=value>',
      'value for a placeholder of the example or of a file to deploy; may be repeated',
      collect,
    )
    .option(
      '--with <template>',
      'also write a file to deploy: compose, kubernetes, systemd, github-actions, gitlab-ci, …; may be repeated',
      collect,
    )
    .option('--folder <folder>', 'where to write', '.')
    .option('--force', 'overwrite files that are there already; .env is only added to')
    .option('--offline', 'test only the configuration: send no request')
    .option('--json', 'print one JSON object: the files written, and what is missing')
    .addHelpText('after', HELP)
    .exitOverride()
    .action(async (flags: InitFlags) => {
      const outcome = await init(setting, flags);
      if (flags.json) print(JSON.stringify(outcome));
      else await describe(outcome);
      say(await nextStep(outcome, flags.folder));
      setting.exit(exitCode(outcome));
    });
  addInitGithubApp(group, setting);
};

async function init(setting: Setting, flags: InitFlags): Promise<Outcome> {
  const { addToEnvFile, missingIn, publishDraft, writeDraft } = await import('../../admin/installation/init.ts');
  const wanted = await completed(flags);
  const draft = writeDraft(wanted, flags.force ?? false);
  const isEnvChanged = addToEnvFile(draft, await valuesOf(draft));
  const others = [...draft.written.filter((each) => each !== draft.path), ...(isEnvChanged ? [draft.envFile] : [])];
  const unfinished = { name: wanted.name, written: [draft.path, ...others], isLive: false };
  const missing = missingIn(draft);
  if (missing.length > 0) return { ...unfinished, missing, findings: [] };
  const findings = await tested(setting, draft, wanted.name, flags.offline ?? false);
  if (findings.some(({ level }) => level === 'error')) return { ...unfinished, missing, findings };
  publishDraft(draft);
  return { name: wanted.name, written: [...others, draft.live], missing, findings, isLive: true };
}

/** The wanted configuration, with the answers of a person where there is a terminal. */
async function completed({
  set = [],
  with: templates = [],
  folder,
  force = false,
  ...given
}: InitFlags): Promise<FirstConfig> {
  const { from, name, url } = given;
  const flags = { ...(from && { from }), ...(name && { name }), ...(url && { url }) };
  const values = Object.fromEntries(set.map(pairOf));
  const wanted = { ...STANDARD, ...flags, with: templates, folder, values };
  if (!process.stdin.isTTY) return wanted;
  const { hasDraft, refusePresent } = await import('../../admin/installation/init.ts');
  const isNew = force || !hasDraft(folder, wanted.name);
  const named = isNew ? { ...wanted, ...(await ask(await nameQuestions(flags, { folder, force }))) } : wanted;
  refusePresent(named, force);
  const { url: address = url, ...answers } = await ask(await valueQuestions(named, { isNew, force }));
  return { ...named, ...(address && { url: address }), values: { ...values, ...answers } };
}

function pairOf(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new SyncError('usage', `--set ${text}: expected <placeholder>=<value>`);
  return [text.slice(0, at), text.slice(at + 1)];
}

async function nameQuestions(
  given: Pick<InitFlags, 'from' | 'name'>,
  target: { readonly folder: string; readonly force: boolean },
): Promise<readonly Question[]> {
  const { exampleNames, problemOfAnswer } = await import('../../admin/installation/init.ts');
  const from = `Start from (${exampleNames().join(', ')})`;
  const questions: Question[] = [
    { key: 'from', text: from, standard: STANDARD.from, problemOf: problemOfAnswer.from },
    {
      key: 'name',
      text: 'Name of the workspace',
      standard: STANDARD.name,
      problemOf: (answer) => problemOfAnswer.name(answer, target),
    },
  ];
  return questions.filter(({ key }) => given[key as keyof typeof given] === undefined);
}

/** Asks for the address of the workspace, and for what stands in the place of other placeholders. */
async function valueQuestions(
  wanted: FirstConfig,
  { isNew, force }: { readonly isNew: boolean; readonly force: boolean },
): Promise<readonly Question[]> {
  const { draftText, EXAMPLE_URL, hostPlaceholder, placeholdersIn, problemOfAnswer, SAMPLE_REPOSITORY } = await import(
    '../../admin/installation/init.ts'
  );
  const { connectors } = await import('../../connectors/registry.ts');
  const { apiOverrides } = await import('../../workspace-api/contract.ts');
  const { url, values = {} } = wanted;
  const content = draftText(wanted, force);
  const questionOf = (placeholder: string, text: string): Question => ({
    key: placeholder,
    text,
    problemOf: (answer) => problemOfAnswer.value(answer, { content, placeholder, connectors, apiOverrides }),
  });
  const open = placeholdersIn(content).filter((each) => !(each in values) && each !== EXAMPLE_URL);
  const questions = open.map((each) => questionOf(each, `Instead of ${each} (empty: later)`));
  const host = hostPlaceholder(content);
  if (isNew && host !== undefined && !(host in values))
    questions.unshift(questionOf(host, `Host of your own server, such as ${host} (empty: the vendor's)`));
  if (url === undefined && content.includes(EXAMPLE_URL)) {
    const text = 'Address of the workspace API, ending in /api/v1 (empty: later)';
    questions.unshift({ key: 'url', text, problemOf: problemOfAnswer.url });
  }
  if (isNew && content.includes(SAMPLE_REPOSITORY) && !(SAMPLE_REPOSITORY in values))
    questions.push({ ...questionOf(SAMPLE_REPOSITORY, 'Repository'), standard: SAMPLE_REPOSITORY });
  return questions;
}

async function ask(questions: readonly Question[]): Promise<Readonly<Record<string, string>>> {
  const { askQuestions } = await import('./init-questions.ts');
  return askQuestions(questions, process.stdin, process.stderr);
}

/** Generates the secrets that a person may choose, and asks for all other variables that are not set. */
async function valuesOf(draft: Draft): Promise<Readonly<Record<string, string>>> {
  const { generatedSecret, unsetVariables } = await import('../../admin/installation/init.ts');
  const { systemRandom } = await import('../../platform/lib/clock.ts');
  const unset = unsetVariables(draft);
  const secrets = unset.flatMap((name) => {
    const secret = generatedSecret(draft, name, systemRandom().bytes(32));
    return secret === undefined ? [] : [[name, secret] as const];
  });
  const generated = Object.fromEntries(secrets);
  const others = unset.filter((name) => generated[name] === undefined);
  const asked = process.stdin.isTTY ? await ask(await secretQuestions(others)) : {};
  return { ...generated, ...asked };
}

async function secretQuestions(names: readonly string[]): Promise<readonly Question[]> {
  const { problemOfAnswer } = await import('../../admin/installation/init.ts');
  return names.map((name) => ({
    key: name,
    text: `${name} (not shown; empty: later)`,
    isSecret: true,
    problemOf: problemOfAnswer.secret,
  }));
}

/** Times that a person may enter another key of the workspace. */
const MOST_KEYS = 3;

/** Tests the draft. On a terminal it asks for another key while the workspace refuses the present one. */
async function tested(setting: Setting, draft: Draft, name: string, isOffline: boolean): Promise<readonly Finding[]> {
  const { replaceableKey, replaceInEnvFile } = await import('../../admin/installation/init.ts');
  const variable = process.stdin.isTTY ? replaceableKey(draft) : undefined;
  const refusalIn = (found: readonly Finding[]) =>
    found.find(({ subject, message }) => subject === `${name}: workspace` && message.startsWith('unauthorized: '));
  for (let left = MOST_KEYS; ; left--) {
    const findings = await test(setting, draft, name, isOffline);
    const refusal = refusalIn(findings);
    if (refusal === undefined || variable === undefined || left === 0) return findings;
    say(`  ${refusal.message}`);
    const { [variable]: key } = await ask(await secretQuestions([variable]));
    if (key === undefined) return findings;
    replaceInEnvFile(draft, variable, key);
  }
}

/** Reads the draft as the daemon would, and asks the workspace and the vendors, without a data folder of its own. */
async function test(setting: Setting, { path }: Draft, name: string, isOffline: boolean): Promise<readonly Finding[]> {
  const { openSession } = await import('../session.ts');
  const { checkHere, describeBroken } = await import('../status/check.ts');
  const flags = { config: path, data: ':memory:init' };
  try {
    const session = await openSession({ ...setting, flags, logLevel: () => 'silent' });
    if (isOffline) return [];
    const { found } = await checkHere({ ...session, options: { ...session.options, store: undefined } });
    // The database of this test is no concern of the daemon.
    return found.filter(({ subject }) => subject.startsWith(name));
  } catch (thrown) {
    return describeBroken({ name, error: asSyncError(thrown) });
  }
}

async function describe({ written, findings }: Outcome): Promise<void> {
  print(written.join('\n'));
  if (findings.length === 0) return;
  const { describeFindings } = await import('../status/check.ts');
  print(describeFindings(findings));
}

async function nextStep({ name, written, missing, isLive }: Outcome, folder: string): Promise<string> {
  const { commandFor, openHost } = await import('../../admin/installation/init.ts');
  const [draft = ''] = written;
  if (isLive) {
    const place = resolve(folder) === resolve('.') ? '' : ` --config ${shellWord(join(folder, 'config/workspaces'))}`;
    return `Next: start the daemon with "worksync run${place}".`;
  }
  const again = commandFor(join(folder, 'config', `${name}.yaml`));
  if (missing.length === 0)
    return `Next: correct what is wrong, in ${draft} or .env. Then run ${again}. With --offline it checks the draft without sending requests.`;
  const host = openHost(draft);
  const ownServer = host === undefined ? '' : ` If the server is your own, add --set ${host}=<its host>.`;
  return `Next: replace in ${draft} and .env: ${missing.join(', ')}. Then run ${again}.${ownServer}`;
}

/** Exit code where values are missing, so that a script knows that the draft is not in use. */
const UNFINISHED = 3;

function exitCode({ missing, findings }: Outcome): number {
  if (missing.length > 0) return UNFINISHED;
  return findings.some(({ level }) => level === 'error') ? 1 : 0;
}

/** Default of the time that a person may take, milliseconds; GitHub's code is valid for an hour. */
const LONGEST_WAIT = 900_000;

const APP_HELP = `
The command opens a page on this machine. Its button leads to GitHub, which shows the App and asks you to confirm it. Then the
command writes three files that only you may read: the App's id, its private key and its webhook secret.

Example: worksync init github-app --organization acme --public-url https://sync.example.com --name team`;

interface AppFlags {
  readonly host: string;
  readonly organization?: string;
  readonly appName: string;
  readonly name: string;
  readonly connection: string;
  readonly publicUrl?: string;
  readonly issues?: boolean;
  readonly folder: string;
  readonly timeout: number;
  readonly json?: boolean;
}

/** `worksync init github-app`: a GitHub App from a manifest. */
function addInitGithubApp(group: Command, setting: Setting): void {
  group
    .command('github-app')
    .description('make a GitHub App that reads pull requests, with its webhook and secrets: one page to confirm')
    .option('--organization <login>', 'the organisation that owns the App (default: you)')
    .option('--host <host>', 'host of the GitHub', 'github.com')
    .option('--app-name <name>', 'name of the App; GitHub lets you change it', 'worksync')
    .option(
      '--public-url <address>',
      'where GitHub reaches the daemon; without it, no webhook',
      likeOption('publicUrl'),
    )
    .option('--name <name>', 'name of the workspace, for the address of the webhook', 'team')
    .option('--connection <name>', 'name of the connection, for the address of the webhook', 'main')
    .option('--issues', 'with the right to read issues')
    .option('--folder <folder>', 'where to write the files', 'secrets')
    .addOption(durationOption('--timeout <duration>', 'how long to wait for you at most', LONGEST_WAIT))
    .option('--json', 'print one JSON object: variables, and where to install the App')
    .addHelpText('after', APP_HELP)
    .exitOverride()
    .action(async (flags: AppFlags) => {
      const { derivedBase } = await import('../../connectors/github/options.ts');
      const { createProcessContext } = await import('../../daemon/daemon-context.ts');
      const { silentLogger } = await import('../../platform/lib/telemetry.ts');
      if (!/^[A-Za-z0-9.-]{1,253}$/.test(flags.host))
        throw new SyncError('usage', `--host ${flags.host}: expected the name of a host`);
      const { http, clock } = createProcessContext(silentLogger, setting.version, setting.scrubber);
      const site = { origin: `https://${flags.host}`, api: derivedBase(flags.host), http, now: clock.now };
      try {
        const made = await makeApp(flags, site, (url) => {
          say(`Open this page in a browser on this machine: ${url}`);
          say(`worksync: waiting for GitHub's answer, for at most ${span(flags.timeout)}`);
        });
        print(flags.json ? JSON.stringify(made) : describeApp(made));
        say(`Next: install the App on your repositories: ${made.installUrl}`);
        say('The number at the end of the address of the installation is GITHUB_INSTALLATION_ID.');
        say(`Then run "worksync init --from github-app --name ${flags.name}".`);
      } finally {
        await http.close();
      }
    });
}

type Takes = Parameters<typeof import('../../connectors/github/app-manifest.ts').takeNewApp>[0];

interface Site extends Takes {
  /** The address of the pages, and of the API, without a slash at its end. */
  readonly origin: string;
  readonly api: string;
}

interface MadeApp {
  /** For the configuration: names of variables, and the files that they name. */
  readonly variables: Readonly<Record<string, string>>;
  readonly installUrl: string;
}

/** Throws `usage` and `conflict` before anything is created, `not_answering` if no confirmation arrived in time, and GitHub's refusals. */
export async function makeApp(
  flags: Omit<AppFlags, 'host' | 'json'>,
  site: Site,
  onPage: (url: string) => void,
): Promise<MadeApp> {
  const { CODE, manifestOf, newAppAddress, takeNewApp } = await import('../../connectors/github/app-manifest.ts');
  const { refuseWrongName } = await import('../../admin/installation/init.ts');
  const { systemRandom } = await import('../../platform/lib/clock.ts');
  const { openConfirmPage } = await import('../../web/confirm-app.ts');
  const { publicUrl, name, connection, organization, appName, issues = false, folder, timeout } = flags;
  refuseWrongName('--name', name);
  refuseWrongName('--connection', connection);
  refusePresentFiles(folder);
  const state = systemRandom().bytes(24).toString('base64url');
  const webhookUrl = publicUrl && `${publicUrl.replace(/\/$/, '')}/webhooks/${name}/${connection}`;
  let made: MadeApp | undefined;
  const page = await openConfirmPage({
    title: 'Make the GitHub App',
    state,
    form: (redirectUrl) => ({
      action: newAppAddress(site.origin, organization, state),
      manifest: JSON.stringify(manifestOf({ name: appName, webhookUrl, redirectUrl, issues })),
    }),
    async take(code) {
      if (!CODE.test(code)) throw new SyncError('answer_malformed', 'GitHub answered with no usable code');
      const app = await takeNewApp(site, site.api, code);
      made = { variables: writeAppFiles(folder, app), installUrl: app.installUrl };
    },
  });
  const over = new AbortController();
  try {
    onPage(page.url);
    await Promise.race([page.taken, sleep(systemClock(), timeout, over.signal)]);
  } catch (error) {
    throw asSyncError(error);
  } finally {
    over.abort();
    await page.close();
  }
  if (made) return made;
  const hint = 'Run the command again, and confirm the App on the page at GitHub.';
  throw new SyncError('not_answering', `nobody confirmed the App within ${span(timeout)}`, { hint });
}

function describeApp({ variables }: MadeApp): string {
  const lines = Object.entries(variables).map(([name, path]) => `${name}=${path}`);
  return ['# For .env: files that only you may read', ...lines].join('\n');
}

/** Secrets that a vendor shows once. */
interface AppSecrets {
  readonly id: string;
  readonly privateKey: string;
  readonly webhookSecret: string | null;
}

const NAMES = { id: 'github-app.id', privateKey: 'github-app.pem', webhookSecret: 'github-app.webhook-secret' };

/** Throws `conflict` if a file exists already. Called before the App is created, because its secrets could not be stored. */
function refusePresentFiles(folder: string): void {
  const present = Object.values(NAMES)
    .map((name) => join(folder, name))
    .filter((path) => existsSync(path));
  if (present.length === 0) return;
  const hint = 'Name another folder with --folder, or move them away. Nothing was made.';
  throw new SyncError('conflict', `already there: ${present.join(', ')}`, { hint });
}

/** Writes them for this user only. @returns the variables of the configuration that name the files */
function writeAppFiles(folder: string, app: AppSecrets): Readonly<Record<string, string>> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const write = (name: string, content: string) => {
    const path = join(folder, name);
    writeFileSync(path, content.endsWith('\n') ? content : `${content}\n`, { mode: 0o600, flag: 'wx' });
    return path;
  };
  return {
    GITHUB_APP_ID_FILE: write(NAMES.id, app.id),
    GITHUB_PRIVATE_KEY_FILE: write(NAMES.privateKey, app.privateKey),
    ...(app.webhookSecret !== null && {
      GITHUB_WEBHOOK_SECRET_FILE: write(NAMES.webhookSecret, app.webhookSecret),
    }),
  };
}
