import { type Command, InvalidArgumentError } from 'commander';
import { unknownName } from '../../admin/named.ts';
import { SyncError } from '../../model/errors.ts';
import { environment } from '../../platform/config/daemon-options.ts';
import { createVariables } from '../../platform/config/interpolate.ts';
import { secretKeyOf } from '../../platform/config/tokens.ts';
import { isPrivateHost } from '../../platform/http/addresses.ts';
import { systemClock, systemRandom } from '../../platform/lib/clock.ts';
import type { Reached } from '../../reference-service/service.ts';
import { type AddCommands, durationOption, likeOption, oneOf, print, type Setting, wholeNumber } from '../command.ts';

export const addWorkspace: AddCommands = (program, setting) => {
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
    .option('--literal', 'behave as the API specification reads literally, without the extensions of worksync')
    .option('--headers <prefix>', 'start of its own header names, such as X-One- (default: X-Service-)', headerPrefix)
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
      const { allowPrivateWebhooks = false, literal = false, headers, ...reached } = given;
      const { createLogger } = await import('../../platform/observe/pino-logger.ts');
      const { createProcessContext } = await import('../../daemon/daemon-context.ts');
      const logger = createLogger({ level: 'warn', scrubber: setting.scrubber });
      const own = { file, quota: { requests, burst }, secretKey: readKey(setting) };
      const options = { ...own, port, host, allowPrivateWebhooks, literal, headers, reached };
      const { describeServed, serveWorkspace } = await import('./workspace-serve.ts');
      const served = await serveWorkspace(options, createProcessContext(logger, setting.version, setting.scrubber));
      print(json ? JSON.stringify(served) : describeServed(served, file));
      setting.exit(undefined);
    });
  addWorkspaceToken(workspace);
  addConnectProvider(workspace, setting);
};

interface BesideFlags {
  readonly db: string;
  readonly user: string;
  readonly workspace?: string;
  readonly json?: boolean;
}

type ServeFlags = Reached &
  Readonly<Record<'port' | 'quota' | 'burst', number>> &
  Readonly<Record<'host' | 'db', string>> &
  Readonly<Partial<Record<'allowPrivateWebhooks' | 'literal' | 'json', boolean>>> & { readonly headers?: string };

type TokenFlags = BesideFlags & { readonly role: 'owner' | 'admin' | 'member'; readonly ttl: number };

type ConnectFlags = BesideFlags & {
  readonly provider: string;
  readonly tokenFile?: string;
  readonly host?: string;
  readonly apiUrl?: string;
};

function headerPrefix(text: string): string {
  if (/^[A-Za-z][A-Za-z0-9-]{0,31}$/.test(text)) return text;
  throw new InvalidArgumentError('expected the start of a header name, such as X-One-');
}

const TOKEN_HELP = `
The command works with or without a running service. An unknown user becomes a member with this role.

Example: worksync workspace token --db data/workspace.service.db --user ada --role admin --ttl 8h
         worksync workspace token --db data/demo.service.db --user Owner --role owner   (of npm start)`;

/** `worksync workspace token`: an OAuth token of a member (W18). */
function addWorkspaceToken(workspace: Command): void {
  workspace
    .command('token')
    .description('mint an OAuth token of a member')
    .requiredOption('--user <id or name>', 'the member whose token it is')
    .option('--role <role>', 'role of the token: owner, admin or member', oneOf(['owner', 'admin', 'member']), 'member')
    .addOption(durationOption('--ttl <duration>', 'how long it lives: 30m, 1h, 14d', 3_600_000))
    .option('--db <file>', 'database file of the service', 'data/workspace.service.db')
    .option('--workspace <id>', 'optional if the service has only one workspace')
    .option('--json', 'print JSON: the token with its id, user, role and end')
    .addHelpText('after', TOKEN_HELP)
    .exitOverride()
    .action(async ({ db, user, role, ttl, workspace: workspaceId, json }: TokenFlags) => {
      const place = { file: db, clock: systemClock(), random: systemRandom() };
      const { mintTokenBeside } = await import('../../reference-service/access/administration.ts');
      const minted = await mintTokenBeside(place, { workspaceId, user, role, ttl });
      print(json ? JSON.stringify(minted) : minted.token);
    });
}

const VARIABLE = 'WORKSYNC_PROVIDER_TOKEN';

const CONNECT_HELP = `
The service stores the token encrypted, and writes the pull requests that this member opens or edits through the API with it.
The command works with or without a running service. Write a person's API token of Bitbucket as <e-mail>:<token>.

Example: worksync workspace connect-provider --user ada --provider github --token-file /run/secrets/ada-github`;

/** `worksync workspace connect-provider`: stores a member's token at a git provider. */
function addConnectProvider(workspace: Command, setting: Setting): void {
  workspace
    .command('connect-provider')
    .description("store a member's token at a git provider")
    .requiredOption('--user <id or name>', 'the member whose token it is')
    .requiredOption('--provider <name>', 'the git provider: id of a connector that opens pull requests, such as github')
    .option('--token-file <file>', `file with the token; else ${VARIABLE} or ${VARIABLE}_FILE`)
    .option('--host <host>', "host of the provider, where it is not the vendor's public one")
    .option('--api-url <url>', 'address of its API, where it is not the one that follows from the host')
    .option('--db <file>', 'database file of the service', 'data/workspace.service.db')
    .option('--workspace <id>', 'optional if the service has only one workspace')
    .option('--json', 'print JSON: workspace, user and provider')
    .addHelpText('after', CONNECT_HELP)
    .exitOverride()
    .action(async (given: ConnectFlags) => {
      const { db: file, user, workspace: workspaceId, provider, apiUrl, json } = given;
      const host = given.host?.toLowerCase() ?? (await publicHostOf(provider));
      checkAddress(host, apiUrl);
      const token = readToken(given, setting);
      const place = { file, secretKey: readKey(setting), clock: systemClock(), random: systemRandom() };
      const { connectProviderBeside } = await import('../../reference-service/access/administration.ts');
      const connected = await connectProviderBeside(place, { workspaceId, user, provider, host, apiUrl, token });
      print(
        json
          ? JSON.stringify({ ...connected, provider, host })
          : `${connected.userId} is connected to ${provider} (${host})`,
      );
    });
}

/** Throws `usage` where it is no git provider. */
async function publicHostOf(provider: string): Promise<string> {
  const { connectors } = await import('../../connectors/registry.ts');
  const served = connectors.filter(({ git }) => git);
  const found = served.find(({ id }) => id === provider);
  if (found) return found.publicHost;
  const ids = served.map(({ id }) => id);
  throw unknownName('git provider', provider, ids);
}

/** Throws `usage` for an address without TLS, unless it is private, because the token goes there. */
function checkAddress(host: string, apiUrl: string | undefined): void {
  const hostUrl = URL.parse(`https://${host}`);
  if (hostUrl === null || hostUrl.hostname !== host)
    throw new SyncError('usage', `--host ${host}: expected a host alone`);
  if (apiUrl === undefined) return;
  const url = URL.parse(apiUrl);
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isPrivateHost(apiUrl));
  if (url === null || !isSafe || url.search !== '' || url.username !== '')
    throw new SyncError('usage', '--api-url: expected an https address without query (http only on a private address)');
}

/** Reads the token from a file or a variable, because every user of the machine sees flags. Throws `secret_missing`. */
function readToken({ tokenFile }: ConnectFlags, { scrubber }: Setting): string {
  const env = tokenFile === undefined ? environment() : { [`${VARIABLE}_FILE`]: tokenFile };
  const found = createVariables(env).get(VARIABLE);
  if (found && 'value' in found && /^[\x21-\x7e]{1,1000}$/.test(found.value)) {
    scrubber.add(found.value);
    return found.value;
  }
  const problem = found && 'problem' in found ? found.problem : 'no token, or not one word of printable characters';
  throw new SyncError('secret_missing', problem, {
    hint: `Name a file with --token-file, or set ${VARIABLE} or ${VARIABLE}_FILE.`,
  });
}

function readKey({ scrubber }: Setting): Buffer | undefined {
  const given = secretKeyOf(environment());
  if (given) scrubber.add(given.text);
  return given?.key;
}
