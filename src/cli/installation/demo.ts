import type { Command } from 'commander';
import { PROGRAM } from '../../platform/lib/own-program.ts';
import { PARTIAL, print, type Setting, sessionOf } from '../setting.ts';

const DEMO_CONFIG = `${PROGRAM}/config/default.yaml`;
export function addDemo(program: Command, setting: Setting): void {
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
}
