import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { installLines, leastVersion, packageName, releaseNotes, withInstallLines } from '../../.ci/release.ts';

const TOP = join(import.meta.dirname, '../..');

it('names the package after the owner of the repository, and never without a scope', () => {
  expect(packageName('Acme/worksync')).toBe('@acme/worksync');
  for (const wrong of ['', 'worksync', 'a/b/c', '@acme/worksync']) expect(() => packageName(wrong)).toThrow('no scope');
});

it('writes release notes from commit subjects, breaking changes first', () => {
  const subjects = ['fix(outbox): requeue a claim', 'feat!: read .env', 'docs: say it', 'perf: read less'];
  const [install, ...sections] = releaseNotes('acme/worksync', subjects).split('\n\n## ');
  expect(install).toBe(installLines('acme/worksync'));
  expect(sections).toEqual([
    'Breaking\n\n- read .env',
    'Added\n\n- read .env',
    'Fixed\n\n- **outbox**: requeue a claim',
    'Faster\n\n- read less',
  ]);
});

it.each([
  ['1.4.2', ['fix: a', 'docs: b'], '1.4.3'],
  ['1.4.2', ['feat(init): a', 'fix: b'], '1.5.0'],
  ['1.4.2', ['fix(store)!: a', 'feat: b'], '2.0.0'],
  ['0.4.2', ['refactor!: a'], '0.5.0'],
])('after %s and %j the next version is at least %s', (last, subjects, least) => {
  expect(leastVersion(last, subjects)).toBe(least);
});

it('puts the lines of a release into the place that README keeps for them', () => {
  const readme = readFileSync(join(TOP, 'README.md'), 'utf8');
  const changed = withInstallLines(readme, 'Acme/worksync');
  expect(changed).toContain('npx @acme/worksync run');
  expect(changed).toContain(' ghcr.io/acme/worksync\n');
  expect(withInstallLines(changed, 'Acme/worksync')).toBe(changed);
});
