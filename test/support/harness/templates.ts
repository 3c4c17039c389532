import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { openServiceDatabase } from '../../../src/reference-service/storage/transactions.ts';
import { openTables } from '../../../src/store/installation/installation.ts';

/** Opens a database in the way of the product, which creates its tables. */
type Open = (options: { readonly file: string }) => Promise<{ close(): Promise<void> }>;

/**
 * Creates the tables of an installation in a file, unless the file exists. It copies them, because the migrations take ten times as
 * long. Tests of migrations and of first starts open the file without it.
 */
export const makeTables = copying(openTables);

export const makeServiceTables = copying(openServiceDatabase);

/** Each process creates its own template, so that the template is never older than the migrations. */
function copying(open: Open): (file: string) => Promise<void> {
  let template: Promise<Buffer> | undefined;
  return async (file) => {
    if (existsSync(file)) return;
    template ??= create(open);
    const content = await template;
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, content, { mode: 0o600, flag: 'wx' });
  };
}

async function create(open: Open): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-template-'));
  try {
    const file = join(folder, 'template.db');
    await (await open({ file })).close();
    return readFileSync(file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
