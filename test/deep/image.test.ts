import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CAN_MOUNT } from '../support/faults/small-volume.ts';
import {
  entryWords,
  environmentOf,
  execForm,
  type Instruction,
  ignoredBy,
  readDockerfile,
} from '../support/harness/dockerfile.ts';
import { npm } from '../support/harness/npm.ts';
import { type Running, startNode, startProgram, TOP } from '../support/harness/processes.ts';

/**
 * A container made by the kernel alone: the folders of the image are its read-only root, and a process runs as another user, without
 * capabilities and without a way to get some. Only root can start it.
 */
interface Container {
  readonly root: string;
  /** Runs a program of `/usr/local/bin`; its process is the one that comes back. */
  start(words: readonly string[], env: Readonly<Record<string, string>>): Running;
}

interface ContainerFolders {
  /** Becomes the root; nothing must be in it. */
  readonly root: string;
  /** The folder that appears as `/app`. */
  readonly app: string;
  /** The folders that appear as `/config`, read-only, and as `/data` and `/backup`, which belong to the user. */
  readonly config: string;
  readonly data: string;
  readonly backup: string;
  /** Programs beside Node, by their names. */
  readonly programs: Readonly<Record<string, string>>;
  /** As in the image: `1000:1000`. */
  readonly user: string;
}

/** Folders of this machine that take the place of the base image. */
const SYSTEM = ['usr', 'bin', 'lib', 'lib64', 'etc'];

function createContainer({ root, app, config, data, backup, programs, user }: ContainerFolders): Container {
  const [uid = 0, gid = 0] = user.split(':').map(Number);
  const system = SYSTEM.filter((name) => existsSync(`/${name}`));
  for (const name of [...system, 'app', 'config', 'data', 'backup', 'proc', 'dev', 'tmp', 'programs'])
    mkdirSync(join(root, name), { recursive: true });
  chmodSync(root, 0o755);
  for (const [name, file] of Object.entries(programs)) {
    copyFileSync(file, join(root, 'programs', name));
    chmodSync(join(root, 'programs', name), 0o755);
  }
  writeFileSync(join(root, 'programs/node'), '');
  for (const folder of [data, backup]) chownSync(folder, uid, gid);
  const script = [
    'set -e',
    'bind() { mount --bind "$1" "$2"; mount -o "remount,bind,$3" "$2"; }',
    `bind ${quoted(root)} ${quoted(root)} rw`,
    `cd ${quoted(root)}`,
    ...system.map((name) => `bind ${quoted(realpathSync(`/${name}`))} ./${name} ro`),
    `bind ${quoted(process.execPath)} ./programs/node ro`,
    'bind ./programs ./usr/local/bin ro,exec',
    `bind ${quoted(process.execPath)} ./usr/local/bin/node ro`,
    `bind ${quoted(app)} ./app ro`,
    `bind ${quoted(config)} ./config ro`,
    `bind ${quoted(data)} ./data rw`,
    `bind ${quoted(backup)} ./backup rw`,
    'mount -t proc proc ./proc',
    'mount --rbind /dev ./dev',
    'mount -t tmpfs -o mode=1777 tmpfs ./dev/shm',
    `mount -o remount,bind,ro ${quoted(root)}`,
    // Anew, so that the present folder is the one that is mounted.
    `cd ${quoted(root)}`,
    `exec chroot . setpriv --reuid ${uid} --regid ${gid} --clear-groups --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all -- "$@"`,
  ].join('\n');
  return {
    root,
    start: (words, env) =>
      startProgram('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', script, 'container', ...words], {
        env: { ...env, PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', NODE_COMPILE_CACHE: '' },
      }),
  };
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * No container engine is needed here: the same steps are done in a scratch folder, and where the tests run as root, the kernel does what an
 * engine would ask it for: the user, the mounts, no rights. What only an engine can show is the base image.
 */
const instructions = readDockerfile(join(TOP, 'Dockerfile'));
const isIgnored = ignoredBy(join(TOP, '.dockerignore'));
const last = Math.max(...instructions.map(({ stage }) => stage));
const image = instructions.filter(({ stage }) => stage === last);

const scratch = mkdtempSync(join(tmpdir(), 'worksync-image-'));
const app = join(scratch, 'app');
const data = join(scratch, 'data');
const config = join(scratch, 'config');

/** Bytes. */
const LARGEST = 45_000_000;
/** The health check runs every 30 seconds. */
const MOST_CPU_SECONDS = 0.02;

const WORKSPACE = `
connections:
  hooks:
    connector: github
    repositories: [acme/app]
    webhookSecrets: \${HOOK_SECRET}
    poll: off
`;

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function textOf(keyword: string): string {
  return image.findLast((instruction) => instruction.keyword === keyword)?.text ?? '';
}

/** The container's folders are folders of the scratch folder. */
function here(text: string): string {
  return text.replace(/(^|=)\/(app|data|config|backup|tmp)\b/g, (_match, start: string, folder: string) =>
    start.concat(join(scratch, folder)),
  );
}

const ENTRY = entryWords(environmentOf(instructions));

/** The variables that `ENV` has set up to here. */
function environment(seen = instructions): Record<string, string> {
  return Object.fromEntries(Object.entries(environmentOf(seen)).map(([name, value]) => [name, here(value)]));
}

function inContainer(text: string, more: Readonly<Record<string, string>> = {}): Running {
  const [program, ...args] = execForm(text);
  expect(program).toBe('worksync');
  // Tests listen on loopback only, on any free port.
  const own = { WORKSYNC_HOST: '127.0.0.1', WORKSYNC_PORT: '0' };
  return startNode([...ENTRY.map(here), ...args], { cwd: app, env: { ...environment(), ...more, ...own } });
}

/** The health check, with the seconds of CPU that it took on standard error: it starts no Node. */
function healthCheck() {
  expect(execForm(textOf('HEALTHCHECK'))).toEqual(['worksync-healthcheck']);
  const script = join(TOP, 'config/deploy/healthcheck');
  return spawnSync('bash', ['-c', `TIMEFORMAT=%U; time bash ${script}`], {
    encoding: 'utf8',
    env: { ...environment(), PATH: process.env['PATH'] },
  });
}

const START = JSON.stringify([...execForm(textOf('ENTRYPOINT')), ...execForm(textOf('CMD'))]);

/** A `COPY` from the build context, as Docker does it. */
function copyFromContext({ text }: Instruction): void {
  const names = text.split(/\s+/);
  const target = join(app, names.pop() ?? '');
  for (const name of names) {
    const isFolder = statSync(join(TOP, name)).isDirectory();
    cpSync(join(TOP, name), isFolder ? target : join(target, basename(name)), {
      recursive: true,
      filter: (source) => !isIgnored(relative(TOP, source)),
    });
  }
}

function install(command: string): void {
  const [, ...args] = command.split(' ');
  // Without a network the lock file is still judged; anything else that fails would fail in a build too.
  if (!npm(app, ...args))
    cpSync(realpathSync(join(TOP, 'node_modules')), join(app, 'node_modules'), { recursive: true });
}

/** A `RUN` as Docker does it: by the shell, in the folder of the program. */
function play({ text }: Instruction, before: readonly Instruction[]): void {
  if (text.startsWith('npm ')) {
    install(text);
    return;
  }
  const command = text.replaceAll(/(?<= )\/(data|config|tmp)\b/g, (_match, folder: string) => join(scratch, folder));
  execFileSync('sh', ['-c', command], { cwd: app, stdio: 'pipe', env: { ...process.env, ...environment(before) } });
}

function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => statSync(join(folder, name)))
    .reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
}

describe('the container', () => {
  beforeAll(() => {
    chmodSync(scratch, 0o755);
    mkdirSync(app);
    mkdirSync(data);
    mkdirSync(config);
    for (const [index, instruction] of instructions.entries()) {
      const { keyword, text } = instruction;
      if (keyword === 'COPY' && !text.startsWith('--')) copyFromContext(instruction);
      if (keyword === 'RUN' && !/chown/.test(text)) play(instruction, instructions.slice(0, index));
    }
  });

  it('is small above its base', () => {
    expect(sizeOf(app)).toBeLessThan(LARGEST);
  });

  it('says what to mount when it has no workspace', async () => {
    const { code, stderr } = await inContainer(START).ended;
    expect(code).toBe(78);
    expect(stderr).toContain(`${config}: the folder contains no *.yaml file`);
  });

  it('becomes ready, answers its health check, and ends within 8 s of SIGTERM', async () => {
    writeFileSync(join(config, 'team.yaml'), WORKSPACE);
    const secret = join(scratch, 'secret');
    writeFileSync(secret, 'a secret of sixteen or more\n', { mode: 0o600 });
    const daemon = inContainer(START, { HOOK_SECRET_FILE: secret });
    const said = await daemon.says('Status page: ');
    const address = /Status page: (\S+)\//.exec(said)?.[1];
    expect((await fetch(`${address}/readyz`)).status).toBe(200);
    const healthy = healthCheck();
    expect(healthy).toMatchObject({ status: 0, stdout: '' });
    expect(Number(/^(\d+\.\d+)$/m.exec(healthy.stderr)?.[1])).toBeLessThan(MOST_CPU_SECONDS);
    expect(existsSync(join(data, 'worksync.db'))).toBe(true);

    const { code, stderr } = await daemon.end(textOf('STOPSIGNAL') as NodeJS.Signals);
    expect(code).toBe(0);
    // Nothing but log lines: the flags of CMD make Node warn, unless told not to.
    for (const line of stderr.trim().split('\n')) expect(() => JSON.parse(line)).not.toThrow();
    expect(healthCheck().status).not.toBe(0);
  });

  describe.runIf(CAN_MOUNT)('as its user, on a file system that may only be read, without any right', () => {
    const user = textOf('USER');
    const [uid = ''] = user.split(':');
    const open = () =>
      createContainer({
        ...{ root: mkdtempSync(join(scratch, 'root-')), app, user },
        ...{ config: newFolder('config'), data: newFolder('data'), backup: newFolder('backup') },
        programs: { worksync: join(TOP, 'config/deploy/worksync') },
      });
    const own = { WORKSYNC_HOST: '127.0.0.1', WORKSYNC_PORT: '0', HOOK_SECRET: 'a secret of sixteen or more' };

    function newFolder(name: string): string {
      const folder = mkdtempSync(join(scratch, `${name}-`));
      chmodSync(folder, 0o755);
      if (name === 'config') writeFileSync(join(folder, 'team.yaml'), WORKSPACE);
      return folder;
    }

    it('works: it becomes ready, is healthy, and ends in order [A16]', async () => {
      const container = open();
      const daemon = container.start(execForm(START), { ...environmentOf(instructions), ...own });
      const address = /Status page: (\S+)\//.exec(await daemon.says('Status page: '))?.[1];
      expect((await fetch(`${address}/readyz`)).status).toBe(200);
      const status = readFileSync(`/proc/${daemon.child.pid}/status`, 'utf8');
      const said = (name: string) => new RegExp(`^${name}:[ \\t]*(.*)$`, 'm').exec(status)?.[1];
      expect(said('Uid')?.split('\t')).toEqual([uid, uid, uid, uid]);
      expect(['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((name) => Number(`0x${said(name)}`))).toEqual([
        0, 0, 0, 0, 0,
      ]);
      expect([said('NoNewPrivs'), said('Groups')?.trim()]).toEqual(['1', '']);
      const { code, stderr } = await daemon.end(textOf('STOPSIGNAL') as NodeJS.Signals);
      expect([code, stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'))]).toEqual([0, []]);
    });

    it('can write its data, backups and shared memory, and nothing else [A16]', async () => {
      const places = [
        '/',
        '/app',
        '/app/src',
        '/app/.cache',
        '/config',
        '/etc',
        '/usr/local/bin',
        '/tmp',
        '/data',
        '/backup',
        '/dev/shm',
      ];
      const look = `import { writeFileSync } from 'node:fs';
        const open = ${JSON.stringify(places)}.filter((place) => {
          try { writeFileSync(place + '/probe', ''); return true; } catch { return false; }
        });
        process.stdout.write(JSON.stringify({ uid: process.getuid(), open }));`;
      // Without Node's own permission model: what the mounts alone allow.
      const { code, stdout, stderr } = await open().start(['node', '--input-type=module', '-e', look], {}).ended;
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(JSON.parse(stdout)).toEqual({ uid: Number(uid), open: ['/data', '/backup', '/dev/shm'] });
    });

    it('cannot start a shell, though the base has one, nor read what its user may not [A16]', async () => {
      const flags = ENTRY.slice(0, -1);
      const look = `import { execFileSync, spawnSync } from 'node:child_process';
        import { readFileSync, writeFileSync } from 'node:fs';
        const failed = [
          () => execFileSync('/bin/sh', ['-c', 'true']),
          () => writeFileSync('/app/src/main.ts', ''),
          () => readFileSync('/etc/shadow'),
          () => process.setuid(0),
        ].map((act) => { try { act(); return 'done'; } catch (error) { return error.code; } });
        process.stdout.write(JSON.stringify(failed));`;
      const words = ['node', ...flags, '--input-type=module', '-e', look];
      const { stdout, stderr } = await open().start(words, {}).ended;
      expect(stderr).toBe('');
      expect(JSON.parse(stdout)).toEqual(['ERR_ACCESS_DENIED', 'ERR_ACCESS_DENIED', 'EACCES', 'EPERM']);
    });
  });
});
