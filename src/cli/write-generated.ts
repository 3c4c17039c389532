import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connectors } from '../connectors/registry.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { generatedFiles } from '../platform/config/generated-files.ts';
import { PROGRAM } from '../platform/lib/program-folder.ts';
import { apiOverrides, openApiDocument } from '../workspace-api/contract.ts';

/** `worksync generate`: writes the files that are made from the code; with `check` only says which are out of date. */
export function generate(check: boolean): string[] {
  const openApi = { path: 'config/openapi.json', content: `${JSON.stringify(openApiDocument(), null, 2)}\n` };
  const files = [...generatedFiles(connectors, apiOverrides), openApi];
  const stale = files.filter(({ path, content }) => read(path) !== content);
  if (check && stale.length > 0) {
    const paths = stale.map(({ path }) => path).join(', ');
    throw new SyncError('generated_stale', `out of date: ${paths}`);
  }
  for (const { path, content } of stale) writeFileSync(join(PROGRAM, path), content);
  return stale.map(({ path }) => path);
}

function read(path: string): string | undefined {
  try {
    return readFileSync(join(PROGRAM, path), 'utf8');
  } catch {
    return undefined;
  }
}
