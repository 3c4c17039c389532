import type { Command } from 'commander';
import type { Tokens } from '../gateway/token-book.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { askOwner, hasOwner, whoRuns } from './owner.ts';
import type { Session } from './session.ts';
import { type Exit, type Setting, say, sessionOf } from './setting.ts';
import { at, printable, table } from './words.ts';
import { chooseWorkspace, onlyOf } from './workspace-client.ts';
import { show, type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

/** `worksync gateway token`. */
export function addGateway(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('gateway')
    .description('the workspace API on the port of the daemon')
    .exitOverride()
    .command('token')
    .description('tokens of the gateway: each stands for the key of the daemon, for one workspace')
    .exitOverride();
  addCreate(group, setting, exit);
  addList(group, setting, exit);
  addRevoke(group, setting, exit);
}

function addCreate(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'create',
    description: 'make a token; its secret is shown once and stored nowhere',
    example: 'gateway token create --description "nightly build"',
  };
  workspaceCommand(group, described, { costsQuota: false })
    .requiredOption('--description <text>', 'who uses the token, and where (required)')
    .action((flags: WorkspaceFlags & { description: string }) =>
      runOnTokens(setting, exit, flags, async (tokens) => {
        const { id, secret } = await tokens.create(flags.description);
        say(`created ${id}; its secret is shown once:`);
        show({ text: secret, json: [{ id, description: flags.description, secret }] }, flags);
      }),
    );
}

function addList(group: Command, setting: Setting, exit: Exit): void {
  const described = { usage: 'list', description: 'list the tokens, revoked ones too', example: 'gateway token list' };
  workspaceCommand(group, described, { costsQuota: false }).action((flags: WorkspaceFlags) =>
    runOnTokens(setting, exit, flags, async (tokens) => {
      const found = (await tokens.list()).map(({ createdAt, revokedAt, ...token }) => ({
        ...token,
        createdAt: at(createdAt),
        revokedAt: revokedAt === null ? null : at(revokedAt),
      }));
      const rows = found.map(({ id, description, createdAt, revokedAt }) => [
        id,
        revokedAt === null ? 'active' : `revoked ${revokedAt}`,
        `created ${createdAt}`,
        printable(description),
      ]);
      show({ text: table(rows), json: found }, flags);
    }),
  );
}

function addRevoke(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'revoke <id>',
    description: 'revoke a token; takes effect at once',
    example: 'gateway token revoke gwt_0123456789abcdef01',
  };
  workspaceCommand(group, described, { costsQuota: false }).action((id: string, flags: WorkspaceFlags) =>
    runOnTokens(setting, exit, flags, async (tokens) => {
      if (!(await tokens.revoke(id)))
        throw new SyncError('not_found', `there is no active gateway token ${id}`, {
          hint: '"worksync gateway token list" lists the tokens.',
        });
      show({ text: `revoked ${id}`, json: [{ revoked: id }] }, flags);
    }),
  );
}

type TokenDesk = Omit<Tokens, 'holds' | 'recalls'>;

/** Sends no request to the workspace. A running daemon does it, so that it knows at once; else this process does. */
async function runOnTokens(
  setting: Setting,
  exit: Exit,
  flags: WorkspaceFlags,
  work: (tokens: TokenDesk) => Promise<void>,
): Promise<void> {
  const session = await sessionOf(setting, flags, () => 'warn');
  const config = chooseWorkspace(session.config, flags.workspace);
  const { data } = session.options;
  if (await hasOwner(data)) await work(tokensOfOwner(data, config.name));
  else await withOwnTokens(onlyOf(session, config), work);
  exit(0);
}

async function withOwnTokens(session: Session, work: (tokens: TokenDesk) => Promise<void>): Promise<void> {
  const { auditedTokens } = await import('../admin/audit.ts');
  const { compose } = await import('../daemon/compose.ts');
  const composition = await compose(session, session.parts);
  try {
    for (const partition of composition.workspaces.partitions()) await work(auditedTokens(partition, whoRuns()));
  } finally {
    await composition.close();
  }
}

function tokensOfOwner(dataFolder: string, workspace: string): TokenDesk {
  const path = `/admin/workspaces/${workspace}/gateway-tokens`;
  return {
    create: (description) => askOwner(dataFolder, 'POST', path, { description }),
    list: () => askOwner(dataFolder, 'GET', path),
    async revoke(id) {
      const { revoked } = await askOwner<{ revoked: boolean }>(dataFolder, 'POST', `${path}/revoke`, { id });
      return revoked;
    },
  };
}
