import type { Command } from 'commander';
import type { EffectiveValue } from '../../admin/installation/effective-config.ts';
import { CODES } from '../../model/errors.ts';
import { commandEnvironment } from '../../platform/config/config-files.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { diskFiles } from '../../platform/lib/regular-files.ts';
import { print, type Setting, say, sessionOf, withDaemonOptions } from '../setting.ts';
import { printable, table } from '../words.ts';
import { chooseWorkspace } from '../workspace-client.ts';

type ShowFlags = Flags & { readonly workspace?: string; readonly json?: boolean };

export function addConfig(program: Command, setting: Setting): void {
  const group = program.command('config').description('the configuration: show').exitOverride();
  withDaemonOptions(group.command('show'))
    .description('show the configuration in use: each value with its origin, secrets as length and hash')
    .option('--workspace <name>', 'of this workspace only')
    .option('--json', 'print JSON: one object in a line for each value')
    .addHelpText('after', '\nExample: worksync config show --workspace team --config config/workspaces')
    .action(async ({ workspace, json, ...flags }: ShowFlags) => {
      const session = await sessionOf(setting, flags, () => 'error');
      const { config, scrubber } = session;
      const { effectiveConfig } = await import('../../admin/installation/effective-config.ts');
      const workspaces = workspace === undefined ? config.workspaces : [chooseWorkspace(config, workspace)];
      const values = effectiveConfig({
        workspaces,
        flags,
        env: commandEnvironment(flags),
        files: diskFiles,
        scrub: scrubber.scrub,
      });
      print(json ? values.map((value) => JSON.stringify(value)).join('\n') : describe(values));
      for (const warning of config.warnings) say(scrubber.scrub(`worksync: ${warning}`));
      for (const { name, error } of config.broken) say(scrubber.scrub(`worksync: ${name}: ${error.message}`));
      setting.exit(config.broken.length > 0 ? CODES.config_invalid.exit : 0);
    });
}

function describe(values: readonly EffectiveValue[]): string {
  const groups = Map.groupBy(values, (each) => each.of);
  const rowOf = ({ key, value, origin }: EffectiveValue) => [`  ${key}`, printable(textOf(value)), printable(origin)];
  return [...groups].map(([of, own]) => `${printable(of)}\n${table(own.map(rowOf))}`).join('\n\n');
}

function textOf(value: unknown): string {
  if (value === null) return 'not set';
  if (Array.isArray(value)) return `[${value.join(', ')}]`;
  return typeof value === 'string' ? value : JSON.stringify(value);
}
