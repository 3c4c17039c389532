import type { Command } from 'commander';
import { SyncError } from '../../model/errors.ts';
import { type Setting, say } from '../setting.ts';
import { at, printable, table } from '../words.ts';
import { operationCommand, type WorkspaceFlags } from '../workspace-command.ts';

/** `worksync gateway token`. A running daemon changes the tokens, so that it knows them at once. Sends no request to the workspace. */
export function addGateway(program: Command, setting: Setting): void {
  const group = program
    .command('gateway')
    .description('the workspace API on the port of the daemon')
    .exitOverride()
    .command('token')
    .description('tokens of the gateway: each stands for the key of the daemon, for one workspace')
    .exitOverride();
  operationCommand(group, setting, {
    usage: 'create',
    description: 'make a token; its secret is shown once and stored nowhere',
    example: 'gateway token create --description "nightly build"',
    operation: 'gateway-token-create',
    body: ({ description }: WorkspaceFlags & { readonly description: string }) => ({ description }),
    text({ id, secret }) {
      say(`created ${id}; its secret is shown once:`);
      return secret;
    },
    json: ({ id, secret }, { description }) => [{ id, description, secret }],
  }).requiredOption('--description <text>', 'who uses the token, and where (required)');
  operationCommand(group, setting, {
    usage: 'list',
    description: 'list the tokens, revoked ones too',
    example: 'gateway token list',
    operation: 'gateway-tokens',
    body: () => ({}),
    text: (found) =>
      table(
        found.map(({ id, description, createdAt, revokedAt }) => [
          id,
          revokedAt === null ? 'active' : `revoked ${at(revokedAt)}`,
          `created ${at(createdAt)}`,
          printable(description),
        ]),
      ),
    json: (found) =>
      found.map(({ createdAt, revokedAt, ...token }) => ({
        ...token,
        createdAt: at(createdAt),
        revokedAt: revokedAt === null ? null : at(revokedAt),
      })),
  });
  operationCommand(group, setting, {
    usage: 'revoke <id>',
    description: 'revoke a token; takes effect at once',
    example: 'gateway token revoke gwt_0123456789abcdef01',
    operation: 'gateway-token-revoke',
    body: (_flags: WorkspaceFlags, id: string) => ({ id }),
    text({ revoked }, _now, _flags, id) {
      if (revoked) return `revoked ${id}`;
      throw new SyncError('not_found', `there is no active gateway token ${id}`, {
        hint: '"worksync gateway token list" lists the tokens.',
      });
    },
    json: (_answer, _flags, id) => [{ revoked: id }],
  });
}
