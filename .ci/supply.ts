import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { faultsOf } from './supply/faults.ts';
import { type Lock, type Manifest, readLock, readManifest, TOP } from './supply/lock.ts';
import { PAGE, pageOf } from './supply/page.ts';
import { faultsOfSbom, sbomOf } from './supply/sbom.ts';
import { faultsOfSettings } from './supply/settings.ts';
import { faultsOfWorkflows, WORKFLOWS } from './supply/workflows.ts';

/** `npm run check:supply`: what is installed for production is little, known, and what it seems. With `--write` it writes the page. */

const manifest = readManifest();
const lock = readLock();
const page = join(TOP, PAGE);
if (process.argv.includes('--write')) writeFileSync(page, pageOf(manifest, lock));
const faults = [
  ...faultsOf(manifest, lock),
  ...faultsOfSbom(sbomOf(manifest, lock), manifest, lock),
  ...faultsOfTree(),
  ...faultsOfSettings(textOf('.npmrc')),
  ...faultsOfWorkflows(globSync(WORKFLOWS, { cwd: TOP }).map((file) => ({ file, text: textOf(file) }))),
  ...faultsOfPage(manifest, lock),
];
for (const fault of faults) process.stderr.write(`${fault}\n`);
process.exitCode = faults.length === 0 ? 0 : 1;

/** Whether each package has what it asks for, as npm sees it. */
function faultsOfTree(): readonly string[] {
  try {
    execFileSync('npm', ['ls', '--all', '--package-lock-only'], { cwd: TOP, stdio: 'pipe' });
    return [];
  } catch (error) {
    return [`the lock file is not complete: ${String((error as { stderr: Buffer }).stderr)}`];
  }
}

function textOf(file: string): string {
  return readFileSync(join(TOP, file), 'utf8');
}

function faultsOfPage(manifest: Manifest, lock: Lock): readonly string[] {
  const isFresh = readFileSync(page, { encoding: 'utf8', flag: 'r' }) === pageOf(manifest, lock);
  return isFresh ? [] : [`${PAGE} is out of date: npm run check:supply -- --write`];
}
