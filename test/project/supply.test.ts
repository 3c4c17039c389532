import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { faultsOf } from '../../.ci/supply/faults.ts';
import { type Lock, type Locked, readLock, readManifest, TOP } from '../../.ci/supply/lock.ts';
import { faultsOfSbom, sbomOf } from '../../.ci/supply/sbom.ts';
import { faultsOfSettings } from '../../.ci/supply/settings.ts';
import { faultsOfWorkflows, WORKFLOWS } from '../../.ci/supply/workflows.ts';

/** Findings of `npm run check:supply`, for the lock file as it is and for ones with a fault. */
const manifest = readManifest();
const lock = readLock();

function withPackage(path: string, change: Partial<Locked>): Lock {
  const found: Locked = lock.packages[path] ?? { version: '1.0.0', license: 'MIT', integrity: HASH };
  return { ...lock, packages: { ...lock.packages, [path]: { ...found, ...change } } };
}

const HASH = `sha512-${'a'.repeat(86)}==`;
const faultsWith = (path: string, change: Partial<Locked>) => faultsOf(manifest, withPackage(path, change)).join('\n');

/** Whether the lock file holds what a package asks for: beside it, or in a folder above it. */
function isLocked(path: string, name: string): boolean {
  const above = path.split('/node_modules/').map((_, depth, parts) => parts.slice(0, depth + 1).join('/node_modules/'));
  return ['', ...above].some((folder) => `${folder}${folder && '/'}node_modules/${name}` in lock.packages);
}

describe('the packages', () => {
  it('are as they should be [A17]', () => {
    expect(faultsOf(manifest, lock)).toEqual([]);
  });

  it.each<[name: string, change: Partial<Locked>, fault: string]>([
    ['one-more', {}, '91 packages are installed for production; 90 may be'],
    ['ret', { license: 'GPL-3.0-only' }, 'ret has the licence GPL-3.0-only'],
    ['zod', { version: '1.2.3' }, 'zod: package.json asks for 4.'],
  ])('are found wrong: %s with %j', (name, change, fault) => {
    expect(faultsWith(`node_modules/${name}`, change)).toContain(fault);
  });

  /** npm drops an optional package from the lock file where the registry lacks it, for example that of another platform. */
  it('are in the lock file for every platform', () => {
    const missing = Object.entries(lock.packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter((name) => !isLocked(path, name)),
    );
    expect(missing).toEqual([]);
  });
});

describe('the list of packages for others', () => {
  const sbom = sbomOf(manifest, lock);

  it('holds each that is installed, and those that files are passed on of, with their hashes', () => {
    expect(faultsOfSbom(sbom, manifest, lock)).toEqual([]);
    expect(sbom.components.map(({ name }) => name)).toEqual(expect.arrayContaining(['zod', 'pg', 'swagger-ui-dist']));
    expect(sbom.components.map(({ name }) => name)).not.toContain('vitest');
  });

  it('is not believed where one is missing, too many, or without a hash [A17]', () => {
    const [first, ...others] = sbom.components;
    const said = faultsOfSbom({ ...sbom, components: [...others, { name: 'x', version: '1' }] }, manifest, lock);
    expect(said).toEqual([
      `${first?.name}@${first?.version} is not in the list of packages`,
      'x@1 is in the list, and nobody installs it',
      'x@1 has no hash in the list of packages',
    ]);
  });
});

describe('the settings of npm', () => {
  const settings = readFileSync(join(TOP, '.npmrc'), 'utf8');

  it('run no script, and take no version before others have tried it [A17]', () => {
    expect(faultsOfSettings(settings)).toEqual([]);
  });
});

describe('what publishes the package', () => {
  const workflows = globSync(WORKFLOWS, { cwd: TOP }).map((file) => ({
    file,
    text: readFileSync(join(TOP, file), 'utf8'),
  }));

  it('runs pinned code with no more rights than it needs, holds no token, and tells where the package comes from [A17]', () => {
    expect(workflows.length).toBeGreaterThan(0);
    expect(faultsOfWorkflows(workflows)).toEqual([]);
  });

  it.each([
    ['rights for all jobs', 'permissions: {}', 'permissions: write-all', 'rights that they do not name'],
    ['a package without provenance', ' --provenance', '', 'without provenance'],
    ['nothing that publishes', /- run: npm publish.*/, '', 'no workflow publishes'],
  ])('is found wrong with %s', (_, part, other, fault) => {
    const changed = workflows.map(({ file, text }) => ({ file, text: text.replace(part, other) }));
    expect(changed).not.toEqual(workflows);
    expect(faultsOfWorkflows(changed)).toContainEqual(expect.stringContaining(fault));
  });
});

interface Stored {
  /** Where the keys are stored, or which message contains them. */
  readonly stored: string;
  readonly file: string;
  readonly type: string;
  readonly keys: readonly string[];
}

/** Keys that a database, a file or another process contains: no rename may change them without a migration. */
const STABLE = JSON.parse(readFileSync(join(TOP, 'src/store/stable-names.json'), 'utf8')) as readonly Stored[];

function membersOf(text: string, type: string): readonly string[] {
  const declared = text.slice(text.indexOf(`interface ${type}`));
  const body = declared.slice(declared.indexOf('{\n') + 2);
  const members = body.slice(0, body.search(/^\}/m)).matchAll(/^ {2}(?:readonly )?(\w+)\??[:(]/gm);
  return Array.from(members, ([, name]) => name as string);
}

it.each(STABLE)('$type in $stored keeps its keys', ({ file, type, keys }) => {
  expect(membersOf(readFileSync(join(TOP, file), 'utf8'), type)).toEqual(keys);
});
