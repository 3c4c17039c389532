import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { TOP } from '../support/harness/processes.ts';

const ANALYZE = '/usr/bin/systemd-analyze';

it('the systemd unit is one that systemd takes, where this machine has it', ({ annotate }) => {
  const unit = readFileSync(join(TOP, 'config/deploy/worksync.service'), 'utf8');
  expect(unit.match(/^\[\w+\]$/gm)).toEqual(['[Unit]', '[Service]', '[Install]']);
  if (!existsSync(ANALYZE)) return annotate('there is no systemd-analyze here: only its sections were read');
  const folder = mkdtempSync(join(tmpdir(), 'worksync-unit-'));
  const file = join(folder, 'worksync.service');
  // It looks for the program, which is not installed here.
  writeFileSync(file, unit.replace('/usr/local/bin/worksync run', `${process.execPath} --version`));
  const said = execFileSync(ANALYZE, ['verify', '--man=no', file], { encoding: 'utf8', stdio: 'pipe' });
  rmSync(folder, { recursive: true });
  expect(said).toBe('');
});
