import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EffectiveValue } from '../../admin/installation/effective-config.ts';
import { CODES, SyncError } from '../../model/errors.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { PROGRAM } from '../../platform/lib/own-program.ts';
import { diskFiles } from '../../platform/lib/regular-files.ts';
import { printable } from '../../platform/lib/text.ts';
import { type AddCommands, print, say, sessionOf, withDaemonOptions } from '../command.ts';
import { table } from '../words.ts';

type ShowFlags = Flags & { readonly workspace?: string; readonly json?: boolean };

export const addConfig: AddCommands = (program, setting) => {
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
      const { commandEnvironment } = await import('../../platform/config/config-files.ts');
      const { chooseWorkspace } = await import('../workspace-command.ts');
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
};

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

export const addGenerate: AddCommands = (program) => {
  program
    .command('generate')
    .description(
      'write the files that are generated from the code: config/schema.json, config/reference.md, config/openapi.json',
    )
    .option('--check', 'only say whether they are up to date')
    .addHelpText('after', '\nExample: worksync generate --check')
    .exitOverride()
    .option('--json', 'print the paths of what was written as JSON')
    .action(async ({ check = false, json }: { check?: boolean; json?: boolean }) => {
      const changed = await generate(check);
      if (json) print(JSON.stringify({ written: changed }));
      else print(changed.length === 0 ? 'up to date' : `written: ${changed.join(', ')}`);
    });
};

/** Writes the files that differ from the code. Throws `generated_stale` if `isCheck` and there are some. */
async function generate(isCheck: boolean): Promise<string[]> {
  const { connectors } = await import('../../connectors/registry.ts');
  const { generatedFiles } = await import('../../platform/config/generated-files.ts');
  const { apiOverrides, openApiDocument } = await import('../../workspace-api/contract.ts');
  const openApi = { path: 'config/openapi.json', content: `${JSON.stringify(openApiDocument(), null, 2)}\n` };
  const files = [...generatedFiles(connectors, apiOverrides), openApi];
  const stale = files.filter(({ path, content }) => read(path) !== content);
  const paths = stale.map(({ path }) => path);
  if (isCheck && stale.length > 0) throw new SyncError('generated_stale', `out of date: ${paths.join(', ')}`);
  for (const { path, content } of stale) writeFileSync(join(PROGRAM, path), content);
  return paths;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(join(PROGRAM, path), 'utf8');
  } catch {
    return undefined;
  }
}
