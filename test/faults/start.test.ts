import { chmodSync, chownSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { memoryFolder } from '../../src/platform/lib/folders.ts';
import { INSTALLATION_FILE } from '../../src/store/installation/installation.ts';
import { CAN_MOUNT, mountSmallVolume } from '../support/faults/small-volume.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { isDeep, sampleOf } from '../support/harness/depth.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { postPull } from '../support/harness/post-pull.ts';
import { type Running, startWorksync, worksync } from '../support/harness/processes.ts';

const SECRET = 'a-secret-of-sixteen-or-more';
/** A workspace without faults. No server listens on the address at which a check would query GitHub. */
const GOOD = `connections:\n  hooks: { connector: github, apiUrl: http://127.0.0.1:9, repositories: [acme/app], webhookSecrets: ${SECRET}, poll: off }\n`;

let scratch = '';
let data = '';
const running: Running[] = [];
const undo: (() => void)[] = [];

beforeEach(() => {
  scratch = folderOfTest('start');
  data = join(scratch, 'data');
});

afterEach(async () => {
  await Promise.all(running.splice(0).map((process) => process.end('SIGKILL')));
  for (const step of undo.splice(0).toReversed()) step();
  vi.unstubAllEnvs();
});

function workspaces(files: Readonly<Record<string, string>>): string {
  const folder = join(scratch, 'workspaces');
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const SILENT = ['--log-level', 'silent'];
const flags = (config: string) => ['--config', config, '--data', data, '--port', '0'];

async function startDaemon(config: string): Promise<{ address: string; said: string }> {
  const daemon = startWorksync(['run', ...flags(config)]);
  running.push(daemon);
  const said = await daemon.says('Status page');
  return { address: /Status page: (\S+)\//.exec(said)?.[1] ?? '', said };
}

const post = (address: string, workspace: string) => postPull(`${address}/webhooks/${workspace}/hooks`, SECRET, 1);

describe('one bad workspace', () => {
  it('keeps no other from starting: it is shown, and its webhooks are told to come again', async () => {
    const unset = GOOD.replace(SECRET, `"$\{WEBHOOK_SECRET_THAT_NOBODY_SET}"`);
    const config = workspaces({
      'bad.yaml': unset,
      'broken.yaml': GOOD,
      'good.yaml': GOOD,
      'no.yaml': 'connections: [',
    });
    mkdirSync(data, { mode: 0o700 });
    writeFileSync(
      join(data, 'broken.service.db'),
      'this is no database, and long enough to be looked at as one'.repeat(100),
    );
    const { address, said } = await startDaemon(config);
    expect(said).toContain('workspace bad: DID NOT START: config_invalid: ');
    expect(said).toContain('workspace broken: DID NOT START: database_corrupt: ');
    const answers = await Promise.all(['good', 'bad', 'broken', 'no', 'never'].map((name) => post(address, name)));
    expect(answers).toEqual([202, 503, 503, 503, 404]);
    expect((await fetch(`${address}/readyz`)).status).toBe(200);

    const status = await commandLine('status', ...flags(config));
    const checked = await commandLine('check', ...flags(config));
    const held = (name: string) => commandLine('held', '--workspace', name, ...flags(config));
    const [broken, bad, good] = [await held('broken'), await held('bad'), await held('good')];
    expect(status.code).toBe(0);
    expect(status.stdout).toMatch(/^worksync .*, BLOCKED, /);
    expect(status.stdout).toContain('workspace good');
    expect(status.stdout).toMatch(
      /workspace bad\n {2}state {7}BLOCKED config_invalid: .*\n {4}\S+bad\.yaml:2:\d+: .*WEBHOOK_SECRET/,
    );
    expect(status.stdout).toMatch(/workspace broken\n {2}state {7}BLOCKED database_corrupt: /);
    expect(checked.code).toBe(78);
    expect(checked.stdout).toMatch(
      /ERROR {4}bad: config_invalid: \S+bad\.yaml:2:\d+: variable WEBHOOK_SECRET_THAT_NOBODY_SET/,
    );
    expect(checked.stdout).toMatch(/ERROR {4}broken: database_corrupt: /);
    expect([broken.code, broken.stderr]).toEqual([78, expect.stringContaining('database_corrupt')]);
    expect([bad.code, bad.stderr]).toEqual([78, expect.stringContaining('bad.yaml:2:')]);
    expect(good.code).toBe(0);
  });
});

/** A volume with so many bytes left. */
function fullVolume(left: number): string {
  const volume = mountSmallVolume(1_048_576);
  undo.push(volume.remove);
  volume.fill(left);
  return volume.path;
}

describe.runIf(CAN_MOUNT)('a full disk at the start', () => {
  // From not even a place for the lock to one for everything but the last table.
  it.each(sampleOf([0, 4_096, 16_384, 65_536, 131_072, 262_144], 3))(
    'ends with 75, also with %d bytes left',
    async (left) => {
      data = join(fullVolume(left), 'data');
      const { code, stderr } = await commandLine('run', ...flags(workspaces({ 'one.yaml': GOOD })), ...SILENT);
      expect([code, stderr]).toEqual([75, expect.stringContaining('code:   disk_full')]);
      expect(stderr).not.toMatch(/internal|no transaction is active/);
    },
  );
});

describe.runIf(process.getuid?.() === 0)('files that the daemon may not write', () => {
  const NOBODY = 65_534;
  const asNobody = async (config: string) => {
    process.seteuid?.(NOBODY);
    try {
      return await commandLine('run', ...flags(config), ...SILENT);
    } finally {
      process.seteuid?.(0);
    }
  };

  beforeEach(() => chmodSync(scratch, 0o755));

  function configurationBeside(name: string): string {
    mkdirSync(data, { mode: 0o755 });
    chownSync(data, NOBODY, NOBODY);
    writeFileSync(join(data, name), '');
    chmodSync(join(data, name), 0o444);
    return workspaces({ 'one.yaml': GOOD });
  }

  it.each(['worksync.db', 'one.service.db'])('%s: ends with 78 and names it', async (name) => {
    const { code, stderr } = await asNobody(configurationBeside(name));
    expect([code, stderr]).toEqual([78, expect.stringContaining('code:   data_folder_unusable')]);
    expect(stderr).toContain(name);
  });

  // The lock asks for the rights of the user who started the process.
  it.runIf(isDeep)('worksync.lock: ends with 78 and names it', async () => {
    const place = { uid: NOBODY, env: { NODE_DISABLE_COMPILE_CACHE: '1' } };
    const { code, stderr } = await worksync(['run', ...flags(configurationBeside('worksync.lock'))], place);
    expect([code, stderr]).toEqual([78, expect.stringContaining('code:   data_folder_unusable')]);
    expect(stderr).toContain('worksync.lock');
  });

  it('the folder itself: ends with 78 and names it', async () => {
    mkdirSync(data, { mode: 0o555 });
    const { code, stderr } = await asNobody(workspaces({ 'one.yaml': GOOD }));
    expect([code, stderr]).toEqual([78, expect.stringContaining('code:   data_folder_unusable')]);
    expect(stderr).toContain(data);
  });
});

describe('a daemon of variables alone, with its data in memory', () => {
  it('is found by commands of the same variables, stores deliveries, and leaves nothing', async () => {
    const name = `:memory:start-${process.pid}`;
    const env = { WORKSYNC_CONFIG_YAML: `name: ci\n${GOOD}`, WORKSYNC_CONFIG: '/absent', WORKSYNC_DATA: name };
    const daemon = startWorksync(['run', '--port', '0'], { env });
    running.push(daemon);
    const address = /Status page: (\S+)\//.exec(await daemon.says('Status page'))?.[1] ?? '';
    expect(existsSync(join(memoryFolder(name) ?? '', INSTALLATION_FILE))).toBe(true);
    expect(await post(address, 'ci')).toBe(202);
    for (const [variable, value] of Object.entries(env)) vi.stubEnv(variable, value);
    expect((await commandLine('healthcheck')).code).toBe(0);
    expect((await commandLine('wait', '--for', 'workspace=ci')).code).toBe(0);
    expect((await daemon.end()).code).toBe(0);
    expect(existsSync(memoryFolder(name) ?? '')).toBe(false);
  });
});
