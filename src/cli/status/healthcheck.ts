import type { Command } from 'commander';
import { daemonOptions, environment, type Flags } from '../../platform/config/daemon-options.ts';
import { findLiving } from '../owner.ts';
import { OF_QUESTIONS, withDaemonOptions } from '../setting.ts';

/** `worksync healthcheck`: what a container runs every few seconds, so it loads nothing else. */
export function addHealthcheck(program: Command): void {
  withDaemonOptions(program.command('healthcheck'), OF_QUESTIONS)
    .description('exit with 0 while the running daemon is alive; for HEALTHCHECK')
    .addHelpText('after', '\nExample: worksync healthcheck --data /data')
    .action(async (flags: Flags) => {
      const { data } = daemonOptions(flags, environment());
      await findLiving(data);
    });
}
