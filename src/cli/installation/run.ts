import type { Flags } from '../../platform/config/daemon-options.ts';
import { PROGRAM } from '../../platform/lib/program-folder.ts';
import { type AddCommands, PARTIAL, print, refusingUnknown, sessionOf, withDaemonOptions } from '../command.ts';
import type { Session } from '../session.ts';

/** `worksync run`, and `worksync` alone. */
export const addRun: AddCommands = (program, setting) => {
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
};

const DEMO_CONFIG = `${PROGRAM}/config/default.yaml`;
export const addDemo: AddCommands = (program, setting) => {
  program
    .command('demo')
    .description('play the bundled deliveries on fresh data, print the result, and exit')
    .option('--json', 'print the result as one JSON object on the last line')
    .addHelpText('after', '\nExample: worksync demo --json')
    .exitOverride()
    .action(async ({ json }: { json?: boolean }) => {
      const session = await sessionOf(setting, { config: DEMO_CONFIG }, () => 'warn');
      const { demo, describeDemo } = await import('./play-demo.ts');
      const result = await demo(session);
      print(describeDemo(result));
      if (json) print(JSON.stringify(result));
      setting.exit(result.pending === 0 ? 0 : PARTIAL);
    });
};
