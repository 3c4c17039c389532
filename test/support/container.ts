import { chmodSync, chownSync, copyFileSync, existsSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Running, startProgram } from './processes.ts';

/**
 * What a container engine does with our image, as far as the kernel alone can do it: the folders of the image are the root, which may
 * only be read; a process runs as another user, without capabilities and without a way to get some. Only root can start it.
 */
export interface Container {
  readonly root: string;
  /** Runs a program of `/usr/local/bin`; its process is the one that comes back. */
  start(words: readonly string[], env: Readonly<Record<string, string>>): Running;
}

export interface ContainerFolders {
  /** Becomes the root; nothing must be in it. */
  readonly root: string;
  /** What stands at `/app`. */
  readonly app: string;
  /** What stands at `/config`, to be read only, and at `/data`, which belongs to the user. */
  readonly config: string;
  readonly data: string;
  /** Programs beside Node, by their names. */
  readonly programs: Readonly<Record<string, string>>;
  /** As in the image: `1000:1000`. */
  readonly user: string;
}

/** Of this machine, in the place of the base image. */
const SYSTEM = ['usr', 'bin', 'lib', 'lib64', 'etc'];

export function createContainer({ root, app, config, data, programs, user }: ContainerFolders): Container {
  const [uid = 0, gid = 0] = user.split(':').map(Number);
  const system = SYSTEM.filter((name) => existsSync(`/${name}`));
  for (const name of [...system, 'app', 'config', 'data', 'proc', 'dev', 'tmp', 'programs'])
    mkdirSync(join(root, name), { recursive: true });
  chmodSync(root, 0o755);
  for (const [name, file] of Object.entries(programs)) {
    copyFileSync(file, join(root, 'programs', name));
    chmodSync(join(root, 'programs', name), 0o755);
  }
  writeFileSync(join(root, 'programs/node'), '');
  chownSync(data, uid, gid);
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
