import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The project's folder. */
export const TOP = join(import.meta.dirname, '../..');

type Names = string | readonly string[];
type Versions = Readonly<Record<string, string>>;

/** `package.json`, as far as packages go. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly type: string;
  readonly dependencies: Versions;
  readonly devDependencies: Versions;
  readonly optionalDependencies: Versions;
}

/** One package of the lock file, by the path that it is installed at. */
export interface Locked {
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  /** Where it comes from, if not from a registry by its name. */
  readonly resolved?: string;
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly hasInstallScript?: boolean;
  readonly os?: Names;
  readonly cpu?: Names;
  readonly libc?: Names;
  readonly dependencies?: Versions;
  readonly devDependencies?: Versions;
  readonly optionalDependencies?: Versions;
  readonly peerDependencies?: Versions;
}

/** `package-lock.json`; the project itself stands at the path '' */
export interface Lock {
  readonly lockfileVersion: number;
  readonly packages: Readonly<Record<string, Locked>>;
}

export interface Platform {
  readonly os: string;
  readonly cpu: string;
  readonly libc: string;
}

/** The platform of most installations, for which packages are counted. */
export const LINUX: Platform = { os: 'linux', cpu: 'x64', libc: 'glibc' };

export function readManifest(): Manifest {
  return readJson('package.json') as Manifest;
}

export function readLock(): Lock {
  return readJson('package-lock.json') as Lock;
}

function readJson(name: string): unknown {
  return JSON.parse(readFileSync(join(TOP, name), 'utf8'));
}

/** `node_modules/a/node_modules/@b/c` is the package `@b/c`. */
export function nameAt(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

export function packagesOf(lock: Lock): readonly (readonly [path: string, locked: Locked])[] {
  return Object.entries(lock.packages).filter(([path]) => path !== '');
}

/** The paths that `npm ci --omit=dev` fills on such a machine. */
export function installedPaths(lock: Lock, platform: Platform): readonly string[] {
  return packagesOf(lock)
    .filter(([, locked]) => !locked.dev && runsOn(locked, platform))
    .map(([path]) => path);
}

function runsOn({ os, cpu, libc }: Locked, platform: Platform): boolean {
  return takes(os, platform.os) && takes(cpu, platform.cpu) && takes(libc, platform.libc);
}

/** As npm reads it: one name or several, and `!` before those that are shut out. */
function takes(given: Names | undefined, own: string): boolean {
  if (given === undefined) return true;
  const names = [given].flat();
  const isOut = names.includes(`!${own}`);
  return names.includes(own) || (!isOut && names.every((name) => name.startsWith('!')));
}

/** The paths of these packages, and of all that they bring, among those that are installed. */
export function broughtBy(
  lock: Lock,
  direct: readonly string[],
  among: readonly string[] = installedPaths(lock, LINUX),
): ReadonlySet<string> {
  const there = new Set(among);
  const found = new Set<string>();
  const add = (from: string, name: string) => {
    const path = placesAbove(from, name).find((each) => there.has(each));
    if (path === undefined || found.has(path)) return;
    found.add(path);
    const { dependencies, optionalDependencies, peerDependencies } = lock.packages[path] ?? {};
    for (const next of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) add(path, next);
  };
  for (const name of direct) add('', name);
  return found;
}

/** Where Node looks for a package that the one at `from` asks for, nearest first. */
function placesAbove(from: string, name: string): readonly string[] {
  const parts = from === '' ? [] : from.split('/node_modules/');
  const folders = parts.map((_, depth) => parts.slice(0, parts.length - depth).join('/node_modules/'));
  return [...folders.map((folder) => `${folder}/node_modules/${name}`), `node_modules/${name}`];
}
