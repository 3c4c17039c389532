import type { Command } from 'commander';
import { daemonOptions, environment, type Flags } from '../config/daemon-options.ts';
import { endSessionsAlone } from '../operator/data.ts';
import { findOwner } from '../store/data-folder.ts';
import { askOwner, hasOwner } from './owner.ts';
import { type Exit, likeOption, OF_QUESTIONS, print, say, withDaemonOptions } from './setting.ts';
import { plural } from './words.ts';

/** `worksync login` and `worksync logout`. */
export function addLogin(program: Command, exit: Exit): void {
  withDaemonOptions(program.command('login'), OF_QUESTIONS)
    .description('print a link that logs one browser in, once, within ten minutes')
    .option('--read', 'give the browser read access only')
    .option('--workspace <name...>', 'limit it to these workspaces')
    .option(
      '--address <address>',
      'where the browser reaches the daemon, if not at the address on which the daemon listens',
      likeOption('publicUrl'),
    )
    .addHelpText('after', '\nExample: worksync login --read --workspace team --address https://sync.example.com')
    .action(async ({ read, workspace, address, ...flags }: LoginFlags) => {
      const { data } = daemonOptions(flags, environment());
      const wish = { role: read ? 'read' : 'admin', workspaces: workspace ?? null };
      const { path } = await askOwner<{ path: string }>(data, 'POST', '/admin/login-links', wish);
      say('Open this link in the browser. It works once, within ten minutes:');
      print(`${address ?? findOwner(data)?.address}${path}`);
      exit(0);
    });
  withDaemonOptions(program.command('logout'), OF_QUESTIONS)
    .description('log out all browsers and cancel unused links; works without a running daemon too')
    .requiredOption('--all', 'all browsers (the button on a page logs out one)')
    .action(async (flags: Flags) => {
      const { data } = daemonOptions(flags, environment());
      const ended = (await hasOwner(data)) ? await askDaemon(data) : await endSessionsAlone(data);
      print(`logged out: ${plural(ended, 'browser')}`);
      exit(0);
    });
}

type LoginFlags = Flags & { readonly read?: boolean; readonly workspace?: string[]; readonly address?: string };

async function askDaemon(data: string): Promise<number> {
  return (await askOwner<{ ended: number }>(data, 'POST', '/admin/sessions/end')).ended;
}
