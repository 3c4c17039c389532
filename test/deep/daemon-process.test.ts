import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { postPull } from '../support/harness/post-pull.ts';
import { startNode, startProgram } from '../support/harness/processes.ts';
import { useScratch } from '../support/harness/scratch.ts';

const SECRET = 'a-secret-of-sixteen-or-more';
const CONFIG = `connections:\n  github: { connector: github, repositories: [acme/app], webhookSecrets: ${SECRET}, poll: off }\n`;

const scratch = useScratch('process');
let config = '';
beforeEach(() => {
  config = join(scratch.folder, 'test.yaml');
  writeFileSync(config, CONFIG);
});

const data = () => join(scratch.folder, 'data');
const flags = () => ['--config', config, '--data', data(), '--port', '0'];
const addressOf = () => (JSON.parse(readFileSync(join(data(), 'daemon.json'), 'utf8')) as { address: string }).address;
const post = (address: string, number: number) => postPull(`${address}/webhooks/test/github`, SECRET, number);

async function startDaemon() {
  const running = scratch.start(['run', ...flags()]);
  await running.says('Status page');
  return { running, address: addressOf() };
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
}

it.each([['its standard output'], ['its standard output and its log']])(
  'a daemon whose output nobody reads any more goes on: %s',
  async (which) => {
    const running = scratch.start(['run', ...flags()]);
    // As `npm start | head -0`, and with 2>&1.
    running.child.stdout?.destroy();
    if (which !== 'its standard output') running.child.stderr?.destroy();
    await until(() => running.child.exitCode !== null || existsSync(join(data(), 'daemon.json')));
    expect(running.child.exitCode).toBeNull();
    const address = addressOf();
    // Printed, or logged, long before these are answered.
    expect(await post(address, 1)).toBe(202);
    expect((await fetch(`${address}/readyz`)).status).toBe(200);
    expect((await running.end('SIGTERM')).code).toBe(0);
  },
);

it('npm start passes SIGTERM and SIGINT on: nothing is left behind, port and lock are free', async () => {
  const env = { WORKSYNC_CONFIG: config, WORKSYNC_DATA: data(), WORKSYNC_PORT: '0' };
  for (const [number, signal] of (['SIGTERM', 'SIGINT'] as const).entries()) {
    const npm = startProgram('npm', ['start', '--silent'], { env });
    onTestFinished(() => void npm.child.kill('SIGKILL'));
    // The second time it needs the lock that the first one had.
    await npm.says('Status page');
    const address = addressOf();
    expect(await post(address, 2 * number + 1)).toBe(202);
    npm.child.kill(signal);
    await npm.ended;
    // The process that had them is gone, and has ended in order: it took its address back.
    await until(async () => (await post(address, 2 * number + 2)) === 'refused');
    expect(readdirSync(data())).not.toContain('daemon.json');
  }
  const { running } = await startDaemon();
  expect((await running.end()).code).toBe(0);
});

describe('another user of this machine', () => {
  // Only root may start processes as somebody else.
  const isRoot = process.getuid?.() === 0;
  const NOBODY = { uid: 65_534, gid: 65_534 };

  it('gets nothing: no file, no page, no command [A16]', async ({ skip }) => {
    if (!isRoot) skip('left out: the tests do not run as root, so they cannot start a process as another user');
    // Everybody may enter the folders, as those of a checkout; what lies in them is what counts.
    chmodSync(scratch.folder, 0o755);
    mkdirSync(data(), { mode: 0o755 });
    const { address } = await startDaemon();
    const files = readdirSync(data()).filter((name) => statSync(join(data(), name)).isFile());
    expect(files).toEqual(expect.arrayContaining(['daemon.json', 'worksync.lock', 'worksync.db']));
    const script = `
      import { readFileSync } from 'node:fs';
      const opened = ${JSON.stringify(files)}.filter((name) => {
        try { return readFileSync(${JSON.stringify(data())} + '/' + name) !== undefined; } catch { return false; }
      });
      const statuses = [];
      for (const path of ['/', '/status.json', '/metrics', '/admin/check', '/livez'])
        statuses.push((await fetch(${JSON.stringify(address)} + path)).status);
      process.stdout.write(JSON.stringify({ uid: process.getuid(), opened, statuses }));`;
    const asNobody = startNode(['--input-type=module', '-e', script], NOBODY);
    const found = JSON.parse((await asNobody.ended).stdout) as object;
    expect(found).toEqual({ uid: 65_534, opened: [], statuses: [401, 401, 401, 401, 200] });

    const refused = async (...args: string[]) => {
      const { code, stdout, stderr } = await scratch.start([...args, '--data', data()], NOBODY).ended;
      expect([args[0], code, stdout]).toEqual([args[0], 77, '']);
      expect(stderr).toContain('daemon.json');
      expect(stderr).toContain('Run the command as the user of the daemon');
    };
    const commands = [['status'], ['login'], ['held', '--config', config], ['check', '--config', config]];
    await Promise.all(commands.map((args) => refused(...args)));
    expect((await scratch.start(['status', '--data', data()]).ended).code).toBe(0);
  });
});
