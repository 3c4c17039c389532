import type { Command } from 'commander';
import type { ConnectionHooks } from '../admin/hooks.ts';
import { askingWorkspace } from './ask-workspace.ts';
import { type Exit, OF_HOOKS, type Setting, sessionOf } from './setting.ts';
import { printable } from './words.ts';
import { show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

const FAILED = 1;

const HELP = `
The address is <public address>/webhooks/<workspace>/<connection>. Give the public address with --public-url or
WORKSYNC_PUBLIC_URL, to this command or to the daemon.`;

/** `worksync hooks`: the webhooks at the vendors, looked at and registered through the vendors' APIs. */
export function addHooks(program: Command, setting: Setting, exit: Exit): void {
  const group = program.command('hooks').description("the vendors' webhooks: status, install").exitOverride();
  addStatus(group, setting, exit);
  addInstall(group, setting, exit);
}

function addStatus(group: Command, setting: Setting, exit: Exit): void {
  workspaceCommand(
    group,
    {
      usage: 'status [connection]',
      description: 'show which webhooks are on, switched off or absent; uses no quota',
      example: 'hooks status github --public-url https://sync.example.com',
    },
    { shown: OF_HOOKS, costsQuota: false },
  )
    .addHelpText('after', HELP)
    .action(async (connection: string | undefined, flags: WorkspaceFlags) => {
      const session = await sessionOf(setting, flags, () => 'warn');
      const wish = { connection, publicUrl: session.options.publicUrl };
      const found = await askingWorkspace(session, flags, ({ ask }) => ask('hooks', wish));
      show({ text: found.map(describe).join('\n') || 'no connection takes webhooks', json: found }, flags);
      exit(found.every(isSound) ? 0 : FAILED);
    });
}

function addInstall(group: Command, setting: Setting, exit: Exit): void {
  workspaceCommand(
    group,
    {
      usage: 'install <connection>',
      description: "register or repair the connection's webhooks; idempotent",
      example: 'hooks install github --public-url https://sync.example.com',
    },
    { shown: OF_HOOKS, costsQuota: false },
  )
    .addHelpText('after', `${HELP} The first of webhookSecrets signs the deliveries.`)
    .action(async (connection: string, flags: WorkspaceFlags) => {
      const session = await sessionOf(setting, flags, () => 'warn');
      const wish = { connection, publicUrl: session.options.publicUrl };
      const installed = await askingWorkspace(session, flags, ({ ask }) => ask('hooks-install', wish));
      show({ text: describe(installed), json: [installed] }, flags);
      const isRefused = installed.hooks.some(({ outcome }) => outcome === 'unknown');
      exit(isSound(installed) && !isRefused ? 0 : FAILED);
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
