import { installedPaths, LINUX, type Lock, type Manifest, nameAt, packagesOf } from './lock.ts';
import { directOf } from './page.ts';
import { LICENCES, MOST_PACKAGES, REASONS, SCRIPTS_LEFT_OUT, SHIPPED } from './reasons.ts';

/** Returns the faults of the packages in package.json, one sentence each. */
export function faultsOf(manifest: Manifest, lock: Lock): readonly string[] {
  return [
    ...faultsOfCount(lock),
    ...faultsOfReasons(manifest, lock),
    ...faultsOfLicences(lock),
    ...faultsOfSources(lock),
    ...faultsOfAgreement(manifest, lock),
    ...faultsOfScripts(lock),
  ];
}

function faultsOfCount(lock: Lock): readonly string[] {
  const { length } = installedPaths(lock, LINUX);
  return length <= MOST_PACKAGES ? [] : [`${length} packages are installed for production; ${MOST_PACKAGES} may be`];
}

function faultsOfReasons(manifest: Manifest, lock: Lock): readonly string[] {
  const direct = directOf(manifest);
  const without = direct.filter((name) => !REASONS[name]).map((name) => `${name} has no reason`);
  const stale = Object.keys(REASONS).filter((name) => !direct.includes(name));
  const unknown = Object.keys(SHIPPED).filter((name) => lock.packages[`node_modules/${name}`] === undefined);
  return [...without, ...[...stale, ...unknown].map((name) => `${name} has a reason, but nothing asks for it`)];
}

/** The packages that are installed for production on any platform, and those in our own package. */
function faultsOfLicences(lock: Lock): readonly string[] {
  return packagesOf(lock)
    .filter(([path, { dev }]) => !dev || nameAt(path) in SHIPPED)
    .filter(([, { license }]) => !LICENCES.includes(license ?? ''))
    .map(
      ([path, { license }]) =>
        `${nameAt(path)} has the licence ${license ?? 'of nobody knows what'}, which is not on the list`,
    );
}

function faultsOfSources(lock: Lock): readonly string[] {
  return packagesOf(lock).flatMap(([path, locked]) => {
    // A registry need not carry what tools have for platforms of others; then npm cannot learn its hash either.
    const isForeign = locked.dev && locked.optional && (locked.os ?? locked.cpu) && !isOurs(lock, path);
    const faults = [];
    if (locked.link || locked.resolved !== undefined)
      faults.push(`${path} comes from ${locked.resolved ?? 'a folder'}`);
    if (!isForeign && !/^sha512-[\w+/]{86}==$/.test(locked.integrity ?? ''))
      faults.push(`${path} has no hash of SHA-512`);
    return faults;
  });
}

function isOurs(lock: Lock, path: string): boolean {
  const only = { ...lock, packages: { '': {}, [path]: { ...lock.packages[path], dev: false } } } as Lock;
  return installedPaths(only, LINUX).length > 0;
}

/** Whether lock file and `package.json` say the same; npm itself looks at what packages ask of each other. */
function faultsOfAgreement(manifest: Manifest, lock: Lock): readonly string[] {
  const kinds = ['dependencies', 'devDependencies', 'optionalDependencies'] as const;
  return kinds.flatMap((kind) => {
    const locked = lock.packages['']?.[kind] ?? {};
    const names = new Set([...Object.keys(manifest[kind]), ...Object.keys(locked)]);
    return [...names].flatMap((name) => {
      const asked = manifest[kind][name];
      if (asked !== locked[name]) return [`${name}: package.json asks for ${asked}, the lock file for ${locked[name]}`];
      const { version } = lock.packages[`node_modules/${name}`] ?? {};
      return asked === version ? [] : [`${name}: package.json asks for ${asked}, and ${version} is locked`];
    });
  });
}

function faultsOfScripts(lock: Lock): readonly string[] {
  const scripts = packagesOf(lock).filter(([, { dev, hasInstallScript }]) => hasInstallScript && !dev);
  const names = scripts.map(([path]) => nameAt(path));
  const unknown = names.filter((name) => !(name in SCRIPTS_LEFT_OUT));
  const stale = Object.keys(SCRIPTS_LEFT_OUT).filter((name) => !names.includes(name));
  return [
    ...unknown.map((name) => `${name} has a script for its installation, and nothing says that it works without`),
    ...stale.map((name) => `${name} has no script for its installation any more`),
  ];
}
