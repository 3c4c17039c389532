import type { Command } from 'commander';
import { unknownName } from '../admin/named.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { environment } from '../platform/config/daemon-options.ts';
import { createVariables } from '../platform/config/interpolate.ts';
import { secretKeyOf } from '../platform/config/tokens.ts';
import { isPrivateHost } from '../platform/http/private-ranges.ts';
import { systemClock } from '../platform/lib/clock.ts';
import { systemRandom } from '../platform/lib/random.ts';
import { type Exit, print, type Setting } from './setting.ts';

const VARIABLE = 'WORKSYNC_PROVIDER_TOKEN';

interface Given {
  readonly db: string;
  readonly user: string;
  readonly provider: string;
  readonly tokenFile?: string;
  readonly host?: string;
  readonly apiUrl?: string;
  readonly workspace?: string;
  readonly json?: boolean;
}

const HELP = `
The service stores the token encrypted, and writes the pull requests that this member opens or edits through the API with it.
The command works with or without a running service. Write a person's API token of Bitbucket as <e-mail>:<token>.

Example: worksync workspace connect-provider --user ada --provider github --token-file /run/secrets/ada-github`;

/** `worksync workspace connect-provider`: stores a member's token at a git provider. */
export function addConnectProvider(workspace: Command, setting: Setting, exit: Exit): void {
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
    .addHelpText('after', HELP)
    .exitOverride()
    .action(async (given: Given) => {
      const { db: file, user, workspace: workspaceId, provider, apiUrl, json } = given;
      const host = given.host?.toLowerCase() ?? (await publicHostOf(provider));
      checkAddress(host, apiUrl);
      const token = readToken(given, setting);
      const place = { file, secretKey: readKey(setting), clock: systemClock(), random: systemRandom() };
      const { connectProviderBeside } = await import('../reference-service/access/beside.ts');
      const connected = await connectProviderBeside(place, { workspaceId, user, provider, host, apiUrl, token });
      print(
        json
          ? JSON.stringify({ ...connected, provider, host })
          : `${connected.userId} is connected to ${provider} (${host})`,
      );
      exit(0);
    });
}

/** Throws `usage` where it is no git provider. */
async function publicHostOf(provider: string): Promise<string> {
  const { connectors } = await import('../connectors/registry.ts');
  const served = connectors.filter(({ git }) => git);
  const found = served.find(({ id }) => id === provider);
  if (found) return found.publicHost;
  const ids = served.map(({ id }) => id);
  throw unknownName('git provider', provider, ids);
}

/** The token goes to this address: in clear text only where it does not leave the machine. */
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

/** Never a flag: command lines are seen by every user of the machine. Throws `secret_missing`. */
function readToken({ tokenFile }: Given, { scrubber }: Setting): string {
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
