import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { SyncError } from '../../model/errors.ts';
import { PROGRAM } from '../../platform/lib/own-program.ts';
import { print } from '../setting.ts';

export function addGenerate(program: Command): void {
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
}

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
