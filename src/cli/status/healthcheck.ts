import { daemonOptions, environment, type Flags } from '../../platform/config/daemon-options.ts';
import { type AddCommands, daemonCommand } from '../command.ts';
import { findLiving } from '../owner.ts';

/** `worksync healthcheck`: what a container runs every few seconds, so it loads nothing else. */
export const addHealthcheck: AddCommands = (program) => {
  daemonCommand(program, 'healthcheck')
    .description('exit with 0 while the running daemon is alive; for HEALTHCHECK')
    .addHelpText('after', '\nExample: worksync healthcheck --data /data')
    .action(async (flags: Flags) => {
      const { data } = daemonOptions(flags, environment());
      await findLiving(data);
    });
};
