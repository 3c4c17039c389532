import type { Command } from 'commander';
import type { Flags } from '../../platform/config/daemon-options.ts';
import type { Session } from '../session.ts';
import { refusingUnknown, type Setting, sessionOf, withDaemonOptions } from '../setting.ts';

/** `worksync run`, and `worksync` alone. */
export function addRun(program: Command, setting: Setting): void {
  refusingUnknown(withDaemonOptions(program.command('run', { isDefault: true })))
    .description('run the daemon; without a workspace file of yours it runs the embedded demo')
    .addHelpText('after', '\nExample: worksync run --config config/workspaces --data data --port 8080')
    .action(async (flags: Flags) => {
      // The demo is a first look on a terminal: its summary is not to drown in log lines.
      const level = ({ secrets }: Session['config'], demoSecret: string) =>
        secrets.includes(demoSecret) ? 'warn' : 'info';
      const { endAtOnceOnSignals } = await import('../signals.ts');
      const release = endAtOnceOnSignals();
      const session = await sessionOf(setting, flags, level, true);
      const { run } = await import('./run-daemon.ts');
      release();
      await run(session);
      setting.exit(undefined);
    });
}
