import type { Command } from 'commander';
import { SyncError } from '../model/errors/sync-error.ts';
import { answering } from './ask-workspace.ts';
import { type Exit, type Setting, say } from './setting.ts';
import { at, printable, table } from './words.ts';
import { type WorkspaceFlags, workspaceCommand } from './workspace-command.ts';

/** `worksync gateway token`. A running daemon changes the tokens, so that it knows them at once. Sends no request to the workspace. */
export function addGateway(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('gateway')
    .description('the workspace API on the port of the daemon')
    .exitOverride()
    .command('token')
    .description('tokens of the gateway: each stands for the key of the daemon, for one workspace')
    .exitOverride();
  const answer = answering(setting, exit);
  const create = {
    usage: 'create',
    description: 'make a token; its secret is shown once and stored nowhere',
    example: 'gateway token create --description "nightly build"',
  };
  workspaceCommand(group, create, { costsQuota: false })
    .requiredOption('--description <text>', 'who uses the token, and where (required)')
    .action(
      answer(async ({ ask }, { description }: WorkspaceFlags & { description: string }) => {
        const { id, secret } = await ask('gateway-token-create', { description });
        say(`created ${id}; its secret is shown once:`);
        return { text: secret, json: [{ id, description, secret }] };
      }),
    );
  const list = { usage: 'list', description: 'list the tokens, revoked ones too', example: 'gateway token list' };
  workspaceCommand(group, list, { costsQuota: false }).action(
    answer(async ({ ask }) => {
      const found = (await ask('gateway-tokens', {})).map(({ createdAt, revokedAt, ...token }) => ({
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
      return { text: table(rows), json: found };
    }),
  );
  const revoke = {
    usage: 'revoke <id>',
    description: 'revoke a token; takes effect at once',
    example: 'gateway token revoke gwt_0123456789abcdef01',
  };
  workspaceCommand(group, revoke, { costsQuota: false }).action(
    answer(async ({ ask }, _flags: WorkspaceFlags, id: string) => {
      const { revoked } = await ask('gateway-token-revoke', { id });
      if (revoked) return { text: `revoked ${id}`, json: [{ revoked: id }] };
      throw new SyncError('not_found', `there is no active gateway token ${id}`, {
        hint: '"worksync gateway token list" lists the tokens.',
      });
    }),
  );
}
