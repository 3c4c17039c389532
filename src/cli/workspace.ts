import { type Command, InvalidArgumentError } from 'commander';
import { environment } from '../platform/config/daemon-options.ts';
import { secretKeyOf } from '../platform/config/tokens.ts';
import type { Reached } from '../reference-service/service.ts';
import { type Exit, likeOption, print, type Setting, wholeNumber } from './setting.ts';
import { addConnectProvider } from './workspace-connect-provider.ts';
import { addWorkspaceToken } from './workspace-token.ts';

/** `worksync workspace`. */
export function addWorkspace(program: Command, setting: Setting, exit: Exit): void {
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
      const { createLogger } = await import('../platform/observe/pino-logger.ts');
      const { createProcessContext } = await import('../daemon/daemon-context.ts');
      const logger = createLogger({ level: 'warn', scrubber: setting.scrubber });
      const key = secretKeyOf(environment());
      if (key) setting.scrubber.add(key.text);
      const own = { file, quota: { requests, burst }, secretKey: key?.key };
      const options = { ...own, port, host, allowPrivateWebhooks, literal, headers, reached };
      const { describeServed, serveWorkspace } = await import('./workspace-serve.ts');
      const served = await serveWorkspace(options, createProcessContext(logger, setting.version, setting.scrubber));
      print(json ? JSON.stringify(served) : describeServed(served, file));
    });
  addWorkspaceToken(workspace, exit);
  addConnectProvider(workspace, setting, exit);
}

/** Reads the start of a header name: letters, digits and hyphens. */
function headerPrefix(text: string): string {
  if (/^[A-Za-z][A-Za-z0-9-]{0,31}$/.test(text)) return text;
  throw new InvalidArgumentError('expected the start of a header name, such as X-One-');
}

interface ServeFlags extends Reached {
  readonly port: number;
  readonly host: string;
  readonly db: string;
  readonly quota: number;
  readonly burst: number;
  readonly allowPrivateWebhooks?: boolean;
  readonly literal?: boolean;
  readonly headers?: string;
  readonly json?: boolean;
}
