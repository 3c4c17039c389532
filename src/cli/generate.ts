import type { Command } from 'commander';
import { print } from './setting.ts';

/** `worksync generate`. */
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
    .action(async ({ check: only, json }: { check?: boolean; json?: boolean }) => {
      const { generate } = await import('./write-generated.ts');
      const changed = generate(only ?? false);
      if (json) print(JSON.stringify({ written: changed }));
      else print(changed.length === 0 ? 'up to date' : `written: ${changed.join(', ')}`);
    });
}
