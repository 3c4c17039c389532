import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type CommandEnded, commandLine } from '../support/harness/command-line.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { type Running, startWorksync } from '../support/harness/processes.ts';

const data = folderOfFile('wait');
let daemon: Running;
let waited: CommandEnded;

beforeAll(async () => {
  const waiting = commandLine('wait', '--timeout', '4m', '--json', '--data', data);
  daemon = startWorksync(['run', '--config', 'config/default.yaml', '--data', data, '--port', '0']);
  await daemon.says('this start took');
  waited = await waiting;
});
afterAll(async () => {
  await daemon.end();
});

it('waits for a daemon that starts later, until everything is synced, and says for what', () => {
  expect(waited.code).toBe(0);
  expect(JSON.parse(waited.stdout)).toEqual({ outcome: 'met', waitsFor: [], needsPerson: [] });
  expect(waited.stderr).toMatch(/^worksync: waiting for the daemon: no daemon answers for the data folder/);
});

it('ends with 75 where the time is over', async () => {
  const { code, stderr } = await commandLine('wait', '--timeout', '1s', '--data', join(data, 'nobody'));
  expect(code).toBe(75);
  expect(stderr).toContain('left: the daemon: no daemon answers');
});

it('status --watch tells lines where no terminal is, until a signal', async () => {
  const watching = startWorksync(['status', '--watch', '--data', data]);
  const said = await watching.says('demo');
  expect(said).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z {2}demo {2}ok, \d+ pull requests synced/);
  const { code } = await watching.end('SIGINT');
  expect(code).toBeNull();
});
