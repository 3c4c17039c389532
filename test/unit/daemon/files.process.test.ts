import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Status } from '../../../src/admin/status/status.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { PATIENT_CLOCK, type Running, startNode, TOP } from '../../support/harness/processes.ts';

/** A configuration folder with one file that can be read, and one of each kind that cannot. */
async function mixedFolder(): Promise<string> {
  const folder = folderOfTest('hung');
  const config = join(folder, 'config');
  mkdirSync(join(config, 'folder.yaml'), { recursive: true });
  const file = (name: string) => join(config, `${name}.yaml`);
  const secrets = 'webhookSecrets: a-secret-of-sixteen-or-more';
  writeFileSync(
    file('good'),
    `connections: { github: { connector: github, repositories: [acme/app], poll: off, ${secrets} } }\n`,
  );
  execFileSync('mkfifo', [file('pipe'), join(folder, 'pipe')]);
  symlinkSync('/dev/zero', file('device'));
  symlinkSync('/dev/full', file('full'));
  writeFileSync(file('large'), '');
  truncateSync(file('large'), 1_073_741_824);
  const server = createServer();
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(file('socket'), resolve));
  return folder;
}

/** Starts a daemon over the configuration of a mixed folder. */
async function startDaemon(folder: string, hungFolder: string) {
  const [config, data] = [join(folder, 'config'), join(folder, 'data')];
  const hung = join(TOP, 'test/support/faults/hung-folder.ts');
  const program = ['--import', PATIENT_CLOCK, '--import', hung, 'src/main.ts'];
  const env = { HUNG_FOLDER: join(folder, hungFolder), WORKSYNC_ADMIN_TOKEN: 'a-token-of-sixteen-or-more' };
  const daemon = startNode([...program, 'run', '--config', config, '--data', data, '--port', '0'], { env });
  onTestFinished(() => void daemon.child.kill('SIGKILL'));
  const [, address = ''] = /Status page: (\S+)\//.exec(await daemon.says('Status page')) ?? [];
  const get = (path: string) =>
    fetch(address + path, { headers: { authorization: `Bearer ${env.WORKSYNC_ADMIN_TOKEN}` } });
  return {
    daemon,
    config,
    get,
    status: async () => (await (await get('/status.json')).json()) as Status,
    hang: () => writeFileSync(join(folder, 'hung'), ''),
    async answer() {
      rmSync(join(folder, 'hung'));
      await (await open(join(folder, 'pipe'), 'w')).close();
    },
  };
}

/** For what takes seconds: each look takes time of two processes. */
const SELDOM = { interval: 300 };

/** Node waits for its threads before it exits, so only a signal ends a process with a call that never ends. */
async function expectEndBySignal(daemon: Running): Promise<void> {
  const { code, stderr } = await daemon.end('SIGTERM');
  expect([code, daemon.child.signalCode]).toEqual([null, 'SIGTERM']);
  expect(stderr).not.toContain('timed out');
}

test('a daemon serves and ends whatever is in its configuration folder, also while that does not answer', async () => {
  const { daemon, config, get, status, hang, answer } = await startDaemon(await mixedFolder(), 'config');
  expect(Object.fromEntries((await status()).broken.map(({ name, message }) => [name, message]))).toEqual({
    pipe: `${config}/pipe.yaml is a named pipe, not a regular file`,
    socket: `${config}/socket.yaml is a socket, not a regular file`,
    device: `${config}/device.yaml is a device, not a regular file`,
    full: `${config}/full.yaml is a device, not a regular file`,
    folder: `${config}/folder.yaml is a folder, not a regular file`,
    large: `${config}/large.yaml is larger than 1 MiB`,
  });

  // Where a check of the files is under way already, two of them are what does not answer.
  const unanswered = /config (has not answered for 5 s|is not read, because )/;
  hang();
  await expect.poll(async () => (await status()).configFault?.message, SELDOM).toMatch(unanswered);
  expect((await get('/livez')).status).toBe(200);
  expect((await status()).workspaces.map(({ name }) => name)).toEqual(['good']);
  writeFileSync(join(config, 'late.yaml'), 'none: of these keys');
  await answer();
  await expect.poll(async () => (await status()).broken.map(({ name }) => name), SELDOM).toContain('late');
  expect((await status()).configFault).toBeNull();
  hang();
  await expect.poll(async () => (await status()).configFault?.message, SELDOM).toMatch(unanswered);
  await expectEndBySignal(daemon);
});
