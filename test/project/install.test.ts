import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

interface Locked {
  readonly version?: string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/**
 * npm drops an optional package from the lock file where the registry at hand does not carry it, for example that of
 * another platform; afterwards `npm ci` refuses the lock file as incomplete, everywhere.
 */
it('the lock file holds the optional packages of every platform', () => {
  const file = join(import.meta.dirname, '../../package-lock.json');
  const { packages } = JSON.parse(readFileSync(file, 'utf8')) as { packages: Readonly<Record<string, Locked>> };
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter((name) => !isLocked(packages, path, name)),
  );
  expect(missing).toEqual([]);
});

/** Beside the package that asks, or in a folder above it. */
function isLocked(packages: Readonly<Record<string, Locked>>, path: string, name: string): boolean {
  const above = path.split('/node_modules/').map((_, depth, parts) => parts.slice(0, depth + 1).join('/node_modules/'));
  return ['', ...above].some((folder) => `${folder}${folder && '/'}node_modules/${name}` in packages);
}
