import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readLock, readManifest } from '../../.ci/supply/lock.ts';
import { faultsOfSbom } from '../../.ci/supply/sbom.ts';
import { startWorkspaceService } from '../support/fakes/workspace-service.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { copyProductionPackages, npm } from '../support/harness/npm.ts';
import { startProgram, TOP } from '../support/harness/processes.ts';

/** A program that uses the package; each line that must not compile says so. */
const USE = `
import { connect, WorkspaceError } from 'worksync/client';
const workspace = connect({ url: process.argv[2]!, apiKey: () => process.argv[3]! });
await workspace.createBug({ body: { title: 'Pay by card' } });
for await (const { tasks } of workspace.pages('listTasks', { query: { kind: ['bug'] } })) {
  const [first] = tasks;
  const title: string | undefined = first?.title;
  // @ts-expect-error: a title is text
  const wrong: number | undefined = first?.title;
  void wrong;
  const failure = await workspace.getTask({ taskId: 'none' }).catch((error: unknown) => error);
  if (failure instanceof WorkspaceError) console.log(title, failure.errorCode);
}
// @ts-expect-error: one task is no list
void (() => workspace.pages('getTask', { taskId: 'none' }));
// @ts-expect-error: a bug has a title
void (() => workspace.createBug({ body: {} }));
await workspace.close();
`;
/** Bytes. */
const LARGEST = 3.5 * 1_024 * 1_024;
const folder = folderOfFile('package');
const installed = join(folder, 'node_modules/worksync');
const manifest = (path: string) => JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
const { version } = manifest(TOP);
let node = process.execPath;

/** Where a registry is at hand and has one for this machine; otherwise the tests' own Node. */
function installOldestNode(oldest: string): string {
  const name = { linux: 'node-linux', darwin: 'node-bin-darwin' }[process.platform as 'linux' | 'darwin'];
  const place = join(folder, 'oldest');
  mkdirSync(place);
  writeFileSync(join(place, 'package.json'), '{}');
  if (!name || !npm(place, 'install', `${name}-${process.arch}@${oldest}`)) return process.execPath;
  return join(place, 'node_modules', `${name}-${process.arch}`, 'bin/node');
}

function unpack(file: string): void {
  copyProductionPackages(folder);
  mkdirSync(installed);
  mkdirSync(join(folder, 'node_modules/.bin'));
  execFileSync('tar', ['-xzf', file, '--strip-components=1', '-C', installed]);
  symlinkSync('../worksync/lib/main.js', join(folder, 'node_modules/.bin/worksync'));
}

function sizeOf(path: string): number {
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .map((name) => statSync(join(path, name)))
    .reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
}

const here = () => ({ cwd: folder, env: { PATH: [dirname(node), process.env['PATH']].join(delimiter) } });
const start = (...args: readonly string[]) => startProgram(join(folder, 'node_modules/.bin/worksync'), args, here());

beforeAll(() => {
  execFileSync(process.execPath, ['.ci/build.ts'], { cwd: TOP });
  execFileSync('npm', ['pack', '--pack-destination', folder], { cwd: join(TOP, 'dist'), stdio: 'pipe' });
  writeFileSync(join(folder, 'package.json'), '{}');
  const file = join(folder, `worksync-${version}.tgz`);
  if (!npm(folder, 'install', file)) unpack(file);
  node = installOldestNode(manifest(installed).engines.node.replace('>=', ''));
});

describe('the package', () => {
  it('is small, and brings what runs: no TypeScript, no tests, no tools, no Node', () => {
    expect(sizeOf(installed)).toBeLessThan(LARGEST);
    const files = readdirSync(installed, { recursive: true, encoding: 'utf8' });
    expect(files.filter((path) => /(^|\/)test\/|(?<!\.d)\.ts$|workspaces/.test(path))).toEqual([]);
    const { dependencies, scripts, devDependencies, optionalDependencies, private: isPrivate } = manifest(installed);
    expect(dependencies).toEqual(manifest(TOP).dependencies);
    expect([scripts, devDependencies, optionalDependencies]).toEqual(Array(3).fill(undefined));
    // Without the scope that a release gives it, it must not be published.
    expect(isPrivate).toBe(true);
    expect(existsSync(join(folder, 'node_modules/typescript'))).toBe(false);
  });

  it('lists the packages that it brings, with their hashes [A17]', () => {
    const sbom = JSON.parse(readFileSync(join(installed, 'sbom.cdx.json'), 'utf8')) as Parameters<
      typeof faultsOfSbom
    >[0];
    expect(faultsOfSbom(sbom, readManifest(), readLock())).toEqual([]);
  });

  it('says its version, without a warning', async ({ annotate }) => {
    await annotate(`on Node ${execFileSync(node, ['--version']).toString()}`);
    expect(await start('--version').ended).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\+[\da-f]{8} \(schema/),
      stderr: '',
    });
  });

  it('runs: probes, help pages, a backup beside it, an orderly end; its data lie where one works', async () => {
    const daemon = start('run', '--port', '0');
    const said = await daemon.says('Stop with Ctrl-C');
    const address = /Status page: (\S+)\//.exec(said)?.[1];
    expect((await fetch(`${address}/livez`)).status).toBe(200);
    const contents = await (await fetch(`${address}/help/`)).text();
    const pages = [...contents.matchAll(/href="(\/help\/[\w-]+)"/g)].map(([, page = '']) => page);
    const answers = await Promise.all(pages.map((page) => fetch(address + page)));
    expect(answers.map(({ status }) => status)).toEqual(pages.map(() => 200));
    // The copy is checked by a thread of its own.
    expect(await start('backup', 'copy.db').ended).toMatchObject({ code: 0 });
    expect(await daemon.end()).toMatchObject({ code: 0 });
    expect(existsSync(join(folder, 'data/worksync.db'))).toBe(true);
  });

  it('has a typed client of the workspace API for other programs', async () => {
    const service = await startWorkspaceService();
    writeFileSync(join(folder, 'use.mts'), USE);
    const flags = ['--strict', '--target', 'es2024', '--module', 'nodenext', '--types', 'node'];
    const types = join(TOP, 'node_modules/@types');
    const check = [
      'node_modules/typescript/bin/tsc',
      '--ignoreConfig',
      ...flags,
      '--typeRoots',
      types,
      join(folder, 'use.mts'),
    ];
    expect(await startProgram(process.execPath, check).ended).toMatchObject({ code: 0, stdout: '' });
    const use = startProgram(node, ['use.mjs', service.url, service.apiKey], here());
    expect(await use.ended).toEqual({ code: 0, stdout: 'Pay by card not_found\n', stderr: '' });
    await service.close();
  });
});
