import { broughtBy, installedPaths, LINUX, type Lock, type Manifest, nameAt } from './lock.ts';
import { MOST_PACKAGES, REASONS, SCRIPTS_LEFT_OUT, SHIPPED } from './reasons.ts';
import { LEAST_AGE } from './settings.ts';

export const PAGE = '.github/DEPENDENCIES.md';

/** Returns the text of `.github/DEPENDENCIES.md`. */
export function pageOf(manifest: Manifest, lock: Lock): string {
  const installed = installedPaths(lock, LINUX);
  return `# Packages

Made from the lock file and [\`reasons.ts\`](../.ci/supply/reasons.ts) by \`npm run check:supply -- --write\`. \`npm run check:supply\` fails
where it is out of date, where a package has no reason, a licence that is not on the list, or no hash, where one comes from
elsewhere than a registry, and where an installation for production has more than ${MOST_PACKAGES} packages.

An installation for production (\`npm ci --omit=dev\`) has **${installed.length} packages** on Linux x64. The npm package lists them all, with their hashes,
in \`sbom.cdx.json\` (CycloneDX).

npm takes no version that has been out for less than ${LEAST_AGE} days (\`min-release-age\` in \`.npmrc\`; npm 11.10 and later). A release is published by
[\`release.yaml\`](workflows/release.yaml), without a token, and npm shows which commit it was built from (provenance).

## What we ask for

"Brings" counts the others that come with it on Linux x64, "alone" those of them that nothing else needs.

| package | licence | brings | alone | why |
| ------- | ------- | ------ | ----- | --- |
${directRows(manifest, lock, installed).join('\n')}

## Files of others in the package and the image

| package | licence | why |
| ------- | ------- | --- |
${Object.entries(SHIPPED)
  .map(([name, reason]) => `| \`${name}\` | ${licenceOf(lock, name)} | ${reason} |`)
  .join('\n')}

## Scripts of installation that are left out

\`.npmrc\` keeps npm from running any.

| package | why it works without |
| ------- | -------------------- |
${Object.entries(SCRIPTS_LEFT_OUT)
  .map(([name, reason]) => `| \`${name}\` | ${reason} |`)
  .join('\n')}

## All of them, on Linux x64

| package | licence | comes with |
| ------- | ------- | ---------- |
${allRows(manifest, lock, installed).join('\n')}
`;
}

/** The packages that package.json names. */
export function directOf({ dependencies, optionalDependencies }: Manifest): readonly string[] {
  return [...Object.keys(dependencies), ...Object.keys(optionalDependencies)];
}

function directRows(manifest: Manifest, lock: Lock, installed: readonly string[]): string[] {
  const direct = directOf(manifest);
  return direct.map((name) => {
    const brought = broughtBy(lock, [name], installed);
    const others = broughtBy(
      lock,
      direct.filter((each) => each !== name),
      installed,
    );
    const alone = [...brought].filter((path) => !others.has(path) && nameAt(path) !== name);
    const counts = brought.size === 0 ? ['–', '–'] : [brought.size - 1, alone.length];
    return `| \`${name}\` | ${licenceOf(lock, name)} | ${counts.join(' | ')} | ${REASONS[name] ?? ''} |`;
  });
}

function allRows(manifest: Manifest, lock: Lock, installed: readonly string[]): string[] {
  const brought = directOf(manifest).map((name) => [name, broughtBy(lock, [name], installed)] as const);
  return installed.map((path) => {
    const bringers = brought.filter(([name, paths]) => paths.has(path) && name !== nameAt(path)).map(([name]) => name);
    const asked = `node_modules/${nameAt(path)}` === path && directOf(manifest).includes(nameAt(path)) ? ['us'] : [];
    return `| \`${nameAt(path)}\` | ${lock.packages[path]?.license ?? ''} | ${[...asked, ...bringers].join(', ')} |`;
  });
}

function licenceOf(lock: Lock, name: string): string {
  return lock.packages[`node_modules/${name}`]?.license ?? '';
}
