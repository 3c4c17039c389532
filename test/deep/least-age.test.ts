import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TOP } from '../../.ci/supply/lock.ts';
import { LEAST_AGE } from '../../.ci/supply/settings.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { listenLocally } from '../support/harness/listen.ts';
import { startProgram } from '../support/harness/processes.ts';

/** npm with this project's settings, at a registry with a new version of a package. */
const DAY = 86_400_000;
const folder = folderOfFile('age');

/** Days that each has been out. */
const AGES: Readonly<Record<string, number>> = { '1.0.0': 100, '1.0.1': LEAST_AGE + 1, '1.0.2': LEAST_AGE - 1 };

/** Older ones do not know the setting. */
const knowsAges = spawnSync('npm', ['config', 'ls', '--long'], { encoding: 'utf8' }).stdout.includes('min-release-age');

let registry: Server;
let address: string;
const tarballs = new Map<string, Buffer>();

function packed(version: string): Buffer {
  const place = join(folder, version, 'package');
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'package.json'), JSON.stringify({ name: 'left-pat', version }));
  const file = join(folder, `${version}.tgz`);
  execFileSync('tar', ['-czf', file, '-C', join(folder, version), 'package']);
  return readFileSync(file);
}

const integrityOf = (version: string) =>
  `sha512-${createHash('sha512').update(tarballs.get(version)!).digest('base64')}`;

function packument(): object {
  const versions = Object.keys(AGES).map((version) => {
    const dist = { tarball: `${address}/left-pat/-/left-pat-${version}.tgz`, integrity: integrityOf(version) };
    return [version, { name: 'left-pat', version, dist }] as const;
  });
  const time = Object.entries(AGES).map(([version, days]) => [
    version,
    new Date(Date.now() - days * DAY).toISOString(),
  ]);
  return {
    name: 'left-pat',
    'dist-tags': { latest: '1.0.2' },
    versions: Object.fromEntries(versions),
    time: Object.fromEntries(time),
  };
}

beforeAll(async () => {
  for (const version of Object.keys(AGES)) tarballs.set(version, packed(version));
  registry = createServer((request, response) => {
    const version = /-(\d\.\d\.\d)\.tgz$/.exec(request.url ?? '')?.[1];
    if (version) response.end(tarballs.get(version));
    else response.setHeader('content-type', 'application/json').end(JSON.stringify(packument()));
  });
  address = await listenLocally(registry);
});
afterAll(() => {
  registry.close();
});

/** A project with our settings. */
function newProject(): string {
  const place = mkdtempSync(join(folder, 'project-'));
  copyFileSync(join(TOP, '.npmrc'), join(place, '.npmrc'));
  writeFileSync(join(place, 'package.json'), JSON.stringify({ name: 'project', version: '1.0.0', private: true }));
  return place;
}

const npm = (place: string, ...args: readonly string[]) =>
  startProgram('npm', [...args, '--registry', address, '--cache', join(folder, 'cache')], { cwd: place }).ended;

const lockedIn = (place: string) => {
  const lock = JSON.parse(readFileSync(join(place, 'package-lock.json'), 'utf8'));
  return lock.packages['node_modules/left-pat']?.version as string | undefined;
};

describe.runIf(knowsAges)('a version that has just come out', () => {
  it('is not the one that is taken [A17]', async () => {
    const place = newProject();
    expect((await npm(place, 'install', 'left-pat')).code).toBe(0);
    expect(lockedIn(place)).toBe('1.0.1');
    const named = await npm(newProject(), 'install', 'left-pat@1.0.2');
    expect([named.code, named.stderr]).toEqual([1, expect.stringContaining('ETARGET')]);
  });

  it('is refused where somebody has put it into the lock file [A17]', async () => {
    const place = newProject();
    expect((await npm(place, 'install', 'left-pat@1.0.2', '--save-exact', '--min-release-age=0')).code).toBe(0);
    expect(lockedIn(place)).toBe('1.0.2');
    rmSync(join(place, 'node_modules'), { recursive: true });
    const refused = await npm(place, 'ci');
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('ETARGET')]);
    // A version that is old enough is installed as locked.
    expect((await npm(place, 'install', 'left-pat@1.0.0', '--save-exact')).code).toBe(0);
    expect((await npm(place, 'ci')).code).toBe(0);
    expect(lockedIn(place)).toBe('1.0.0');
  });
});
