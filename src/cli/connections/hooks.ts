import type { Command } from 'commander';
import type { ConnectionHooks } from '../../admin/connections/hooks.ts';
import { FAILED, OF_HOOKS, type Setting } from '../setting.ts';
import { printable } from '../words.ts';
import { requestCommand, type WorkspaceFlags } from '../workspace-command.ts';

const HELP = `
The address is <public address>/webhooks/<workspace>/<connection>. Give the public address with --public-url or
WORKSYNC_PUBLIC_URL, to this command or to the daemon.`;

/** `worksync hooks`: checks and registers the webhooks at the vendors. */
export function addHooks(program: Command, setting: Setting): void {
  const group = program.command('hooks').description("the vendors' webhooks: status, install").exitOverride();
  requestCommand(group, setting, {
    usage: 'status [connection]',
    description: 'show which webhooks are on, switched off or absent; uses no quota',
    example: 'hooks status github --public-url https://sync.example.com',
    help: HELP,
    shown: OF_HOOKS,
    async run({ request, session }, _flags: WorkspaceFlags, connection: string | undefined) {
      const found = await request('hooks', { connection, publicUrl: session.options.publicUrl });
      const text = found.map(describe).join('\n') || 'no connection takes webhooks';
      return { text, json: found, code: found.every(isSound) ? 0 : FAILED };
    },
  });
  requestCommand(group, setting, {
    usage: 'install <connection>',
    description: "register or repair the connection's webhooks; idempotent",
    example: 'hooks install github --public-url https://sync.example.com',
    help: `${HELP} The first of webhookSecrets signs the deliveries.`,
    shown: OF_HOOKS,
    async run({ request, session }, _flags: WorkspaceFlags, connection: string) {
      const installed = await request('hooks-install', { connection, publicUrl: session.options.publicUrl });
      const isRefused = installed.hooks.some(({ outcome }) => outcome === 'unknown');
      return { text: describe(installed), json: [installed], code: isSound(installed) && !isRefused ? 0 : FAILED };
    },
  });
}

function isSound({ hooks, failure }: ConnectionHooks): boolean {
  return failure === null && hooks.every(({ state }) => state === 'active' || state === 'unknown');
}

function describe({ connection, url, hooks, failure }: ConnectionHooks): string {
  const lines = hooks.flatMap(({ subject, state, outcome, message, hint }) => [
    `  ${outcome ?? state}  ${subject}: ${message}`,
    ...(hint === undefined ? [] : [`    remedy: ${hint}`]),
  ]);
  const failed = failure ? [`  ${failure.code}: ${failure.message}`, `    remedy: ${failure.hint}`] : [];
  return [`${connection}${url === null ? '' : ` at ${url}`}`, ...lines, ...failed].map(printable).join('\n');
}
