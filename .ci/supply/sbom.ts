import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Lock, type Locked, type Manifest, nameAt, packagesOf } from './lock.ts';
import { SHIPPED } from './reasons.ts';

interface Sbom {
  readonly metadata: { timestamp?: string };
  serialNumber?: string;
  readonly components: readonly {
    readonly name: string;
    readonly version: string;
    readonly hashes?: readonly object[];
  }[];
}

/**
 * Returns the contents of the npm package on every platform, in the format of CycloneDX. Equal lock files give equal texts.
 *
 * `npm sbom --omit=dev` leaves out what something for development asks for as well, so npm is shown a lock file without those.
 */
export function sbomOf(manifest: Manifest, lock: Lock): Sbom {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-sbom-'));
  // It takes the folder's name for ours.
  const place = join(folder, manifest.name);
  const { devDependencies: _dev, optionalDependencies: _node, dependencies, ...project } = lock.packages[''] ?? {};
  const packages = Object.fromEntries(shippedOf(manifest, lock));
  const passedOn = Object.keys(SHIPPED).map((name) => [name, manifest.devDependencies[name]]);
  const own = { ...project, dependencies: { ...dependencies, ...Object.fromEntries(passedOn) } };
  try {
    mkdirSync(place);
    writeFileSync(join(place, 'package.json'), JSON.stringify(own));
    writeFileSync(join(place, 'package-lock.json'), JSON.stringify({ ...lock, packages: { '': own, ...packages } }));
    const args = ['sbom', '--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only'];
    const sbom = JSON.parse(execFileSync('npm', args, { cwd: place, stdio: 'pipe' }).toString()) as Sbom;
    delete sbom.serialNumber;
    delete sbom.metadata.timestamp;
    return sbom;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Where the list and the lock file differ: nothing may be left out, and nothing be without a hash. */
export function faultsOfSbom(sbom: Sbom, manifest: Manifest, lock: Lock): readonly string[] {
  const listed = new Map(sbom.components.map((each) => [`${each.name}@${each.version}`, each.hashes?.length ?? 0]));
  const wanted = new Set(shippedOf(manifest, lock).map(([path, { version }]) => `${nameAt(path)}@${version}`));
  return [
    ...[...wanted].filter((each) => !listed.has(each)).map((each) => `${each} is not in the list of packages`),
    ...[...listed.keys()]
      .filter((each) => !wanted.has(each))
      .map((each) => `${each} is in the list, and nobody installs it`),
    ...[...listed].filter(([, hashes]) => hashes === 0).map(([each]) => `${each} has no hash in the list of packages`),
  ];
}

/** All but what is for development, and the Node of a clone. Of packages that we pass on, without what they ask for. */
function shippedOf({ optionalDependencies }: Manifest, lock: Lock): readonly (readonly [string, Locked])[] {
  return packagesOf(lock).flatMap(([path, locked]) => {
    const name = nameAt(path);
    if (name in SHIPPED) return [[path, { ...locked, dev: false, dependencies: {} }] as const];
    return locked.dev || name in optionalDependencies ? [] : [[path, locked] as const];
  });
}
