import type { AuditEntry } from '../../admin/access/audit.ts';
import { SyncError } from '../../model/errors.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { systemClock } from '../../platform/lib/clock.ts';
import { printable } from '../../platform/lib/text.ts';
import { findDaemon } from '../../store/installation/daemon-file.ts';
import { type AddCommands, daemonCommand, likeOption, print, say, sinceOf, wholeNumber } from '../command.ts';
import { askInstallation, askOwner, placeOf, whoRuns } from '../owner.ts';
import { at, plural, table } from '../words.ts';
import { operationCommand, type WorkspaceFlags } from '../workspace-command.ts';

export const addLogin: AddCommands = (program) => {
  daemonCommand(program, 'login')
    .description('print a link that logs one browser in, once, within ten minutes')
    .option('--read', 'give the browser read access only')
    .option('--workspace <name...>', 'limit it to these workspaces')
    .option(
      '--address <address>',
      'where the browser reaches the daemon, if not at its public address, or at the one on which it listens',
      likeOption('publicUrl'),
    )
    .option('--json', 'print the link in a JSON object')
    .addHelpText('after', '\nExample: worksync login --read --workspace team --address https://sync.example.com')
    .action(async ({ read, workspace, address, json, ...flags }: LoginFlags) => {
      const { data } = await placeOf(flags);
      const access = { role: read ? 'read' : 'admin', workspaces: workspace ?? null };
      const { path } = await askOwner<{ path: string }>(data, 'POST', '/admin/login-links', access);
      say('Open this link in the browser. It works once, within ten minutes:');
      const daemon = findDaemon(data);
      const link = `${address ?? daemon?.pages ?? daemon?.address ?? ''}${path}`;
      print(json ? JSON.stringify({ link }) : link);
    });
  daemonCommand(program, 'logout')
    .description('log out all browsers and cancel unused links; works without a running daemon too')
    .requiredOption('--all', 'all browsers (the button on a page logs out one)')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExample: worksync logout --all')
    .action(async ({ json, ...flags }: Flags & { readonly json?: boolean }) => {
      const { ended } = await askInstallation(flags, '/admin/sessions/end', undefined, async (installation) => {
        const { endSessions } = await import('../../admin/installation/data.ts');
        return { ended: await endSessions(installation, whoRuns()) };
      });
      print(json ? JSON.stringify({ ended }) : `logged out: ${plural(ended, 'browser')}`);
    });
};

type LoginFlags = Flags & {
  readonly read?: boolean;
  readonly workspace?: string[];
  readonly address?: string;
  readonly json?: boolean;
};

type AuditFlags = Flags & {
  readonly since?: string;
  readonly before?: number;
  readonly limit: number;
  readonly json?: boolean;
};

const MOST = 1_000;

/** Shows what people changed by commands and pages. */
export const addAudit: AddCommands = (program) => {
  daemonCommand(program, 'audit')
    .description('show what people changed by commands and pages, the latest first; uses no quota')
    .option('--since <time>', 'only what is newer: 2026-01-01, 2026-01-01T12:00:00Z, or 7d')
    .option('--limit <number>', `at most this many, up to ${MOST}`, wholeNumber, 50)
    .option('--before <number>', 'only entries older than the one with this number', wholeNumber)
    .option('--json', 'print JSON: one object in a line')
    .addHelpText('after', '\nExample: worksync audit --since 7d')
    .action(async ({ since, before, limit, json, ...flags }: AuditFlags) => {
      const from = since === undefined ? null : Date.parse(sinceOf(since, systemClock().now()));
      const page = { since: from, before: before ?? null, limit: Math.min(Math.max(1, limit), MOST) };
      const { entries, next } = await askInstallation(flags, '/admin/audit', page, async ({ query }) => {
        const { auditLog } = await import('../../admin/access/audit.ts');
        // An action without an end was not done, because no daemon runs.
        return auditLog(query, { ...page, workspaces: null }, Number.POSITIVE_INFINITY);
      });
      for (const line of json ? entries.map((entry) => JSON.stringify(entry)) : describe(entries)) print(line);
      if (next !== null) say(`There are older entries: --before ${next}`);
    });
};

function describe(entries: readonly AuditEntry[]): string[] {
  if (entries.length === 0) return ['nothing was changed'];
  const rows = entries.map(({ at, actor, workspace, action, subject, count, outcome, details }) => [
    new Date(at).toISOString(),
    printable(actor),
    workspace ?? '-',
    action,
    outcome + (count === null ? '' : ` (${count})`),
    printable([subject, details].filter((text) => text !== null).join(': ')),
  ]);
  return [table(rows)];
}

/** `worksync gateway token`. A running daemon changes the tokens, so that it knows them at once. Sends no request to the workspace. */
export const addGateway: AddCommands = (program, setting) => {
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
};
