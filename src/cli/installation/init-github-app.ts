import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { sleep, systemClock } from '../../platform/lib/clock.ts';
import { durationOption } from '../patience.ts';
import { likeOption, print, type Setting, say } from '../setting.ts';
import { span } from '../words.ts';

/** Default of the time that a person may take, milliseconds; GitHub's code is valid for an hour. */
const LONGEST_WAIT = 900_000;

const HELP = `
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
export function addInitGithubApp(group: Command, setting: Setting): void {
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
    .addHelpText('after', HELP)
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
        print(flags.json ? JSON.stringify(made) : describe(made));
        say(`Next: install the App on your repositories: ${made.installUrl}`);
        say('The number at the end of the address of the installation is GITHUB_INSTALLATION_ID.');
        say(`Then run "worksync init --from github-app --name ${flags.name}".`);
      } finally {
        await http.close();
      }
    });
}

type Takes = Parameters<typeof import('../../connectors/github/app-manifest.ts').takeNewApp>[0];

export interface Site extends Takes {
  /** The address of the pages, and of the API, without a slash at its end. */
  readonly origin: string;
  readonly api: string;
}

export interface MadeApp {
  /** For the configuration: names of variables, and the files that they name. */
  readonly variables: Readonly<Record<string, string>>;
  readonly installUrl: string;
}

/** Throws `usage` and `conflict` before anything is created, `not_received` if nobody confirmed in time, and GitHub's refusals. */
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

function describe({ variables }: MadeApp): string {
  const lines = Object.entries(variables).map(([name, path]) => `${name}=${path}`);
  return ['# For .env: files that only you may read', ...lines].join('\n');
}

/** Secrets that a vendor tells once. */
interface AppSecrets {
  readonly id: string;
  readonly privateKey: string;
  readonly webhookSecret: string | null;
}

const NAMES = { id: 'github-app.id', privateKey: 'github-app.pem', webhookSecret: 'github-app.webhook-secret' };

/** Throws `conflict` where a file is there already: before anything is made that could not be stored. */
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
