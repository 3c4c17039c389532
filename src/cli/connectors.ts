import type { Command } from 'commander';
import { print } from './setting.ts';

const HELP = `
Every connector has all flags; those that it does not name are false. With --json one object in a line for each.

Example: worksync connectors --json`;

/** `worksync connectors`: what this version can talk to. */
export function addConnectors(program: Command): void {
  program
    .command('connectors')
    .description('list the connectors, what each vendor can do, and the options of a connection')
    .option('--json', 'print one JSON object per connector')
    .addHelpText('after', HELP)
    .exitOverride()
    .action(async ({ json }: { json?: boolean }) => {
      const { listConnectors } = await import('./list-connectors.ts');
      print(listConnectors(json ?? false));
    });
}
