import type { Command } from 'commander';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { findDaemon } from '../../store/installation/daemon-file.ts';
import { askInstallation, askOwner, placeOf, whoRuns } from '../owner.ts';
import { likeOption, OF_QUESTIONS, print, say, withDaemonOptions } from '../setting.ts';
import { plural } from '../words.ts';

export function addLogin(program: Command): void {
  withDaemonOptions(program.command('login'), OF_QUESTIONS)
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
  withDaemonOptions(program.command('logout'), OF_QUESTIONS)
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
}

type LoginFlags = Flags & {
  readonly read?: boolean;
  readonly workspace?: string[];
  readonly address?: string;
  readonly json?: boolean;
};
