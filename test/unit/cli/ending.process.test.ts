import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folderOfTest } from '../../support/harness/folder.ts';
import { startProgram, TOP } from '../../support/harness/processes.ts';

/** Runs a command in a shell, its output in a pipe. Its first output is 5 MB of JSON, then 1 000 errors. */
async function runInto(reader: string) {
  const folder = folderOfTest('ending');
  copyFileSync(join(TOP, 'src/connectors/github/fixtures/pull_request.opened.json'), join(folder, 'p'));
  const command = `"${process.execPath}" "${TOP}/src/main.ts" translate github --event pull_request --json`;
  const files = `$(yes p | head -n 6500) $(seq -f missing-%g 1000)`;
  const script = `{ ${command} ${files} 2>&1; echo $? > code; } | { ${reader}; } > read`;
  const { stderr } = await startProgram('bash', ['-c', script], { cwd: folder }).ended;
  const content = (name: string) => readFileSync(join(folder, name), 'utf8');
  return { code: Number(content('code')), read: content('read'), stderr };
}

test('a slow reader gets the whole output and all errors of a command', async () => {
  const { code, read } = await runInto('sleep 1; cat');
  const objects = read.split('\n').filter((line) => line.startsWith('{'));
  expect([code, objects.length, objects.join('\n').length > 5_000_000]).toEqual([1, 7_500, true]);
  for (const line of objects) JSON.parse(line);
  expect(read.match(/^\S.*missing-\d+: /gm)).toHaveLength(1_000);
});

test('a command ends quietly, with the exit code of SIGPIPE, when its reader goes', async () => {
  const { code, read, stderr } = await runInto('head -c 7');
  expect({ code, read, stderr }).toEqual({ code: 141, read: '{"file"', stderr: '' });
});
