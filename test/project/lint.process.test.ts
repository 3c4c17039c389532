import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { basename, join } from 'node:path';
import { expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { folderOfTest } from '../support/harness/folder.ts';
import { startNode, TOP } from '../support/harness/processes.ts';

/** Files for other programs, each checked by what its program says of it. CI checks the files of Compose by Compose itself. */

const ANALYZE = '/usr/bin/systemd-analyze';

const filesAt = (pattern: string) => globSync(pattern, { cwd: TOP });
const textOf = (file: string) => readFileSync(join(TOP, file), 'utf8');

/** GitHub's own parser, which knows keys and the names in expressions. It imports JSON in a way that Node does not take. */
async function workflowFaults(text: string): Promise<readonly string[]> {
  const hooks = registerHooks({
    load: (url, context, next) =>
      next(url, url.endsWith('.json') ? { ...context, importAttributes: { type: 'json' } } : context),
  });
  const { NoOperationTraceWriter, parseWorkflow } = await import('@actions/workflow-parser');
  hooks.deregister();
  const { context } = parseWorkflow({ name: 'workflow', content: text }, new NoOperationTraceWriter());
  return context.errors.getErrors().map(({ message }) => message);
}

it('GitHub understands the workflows, ours and those to copy', async () => {
  const files = ['.github/workflows/*.yaml', 'config/deploy/github-actions*.yaml'].flatMap(filesAt);
  expect(files.length).toBeGreaterThan(3);
  const faults = await Promise.all(files.map(async (file) => [file, await workflowFaults(textOf(file))]));
  expect(faults.filter(([, found]) => found?.length)).toEqual([]);
  const wrong = textOf('.github/workflows/ci.yaml').replace('runs-on:', 'runs-in:').replace('github.ref', 'githb.ref');
  const found = await workflowFaults(wrong);
  expect(found).toContainEqual(expect.stringContaining("Unexpected value 'runs-in'"));
  expect(found).toContainEqual(expect.stringContaining("Unrecognized named-value: 'githb'"));
});

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
}

/** Compares each manifest with the type of its kind, which allows no other key. */
async function manifestFaults(texts: readonly string[]): Promise<string> {
  const manifests = texts.flatMap((text) => parseAllDocuments(text).map((each) => each.toJS() as Manifest));
  const lines = manifests.map((manifest, index) => {
    const group = manifest.apiVersion === 'v1' ? 'core/v1' : manifest.apiVersion.replace('.k8s.io/', '/');
    const type = `import('${TOP}/node_modules/kubernetes-types/${group}').${manifest.kind}`;
    return `export const manifest${index}: ${type} = ${JSON.stringify(manifest)};`;
  });
  const file = join(folderOfTest('manifests'), 'manifests.ts');
  writeFileSync(file, lines.join('\n'));
  const flags = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'esnext'];
  const compiler = ['node_modules/typescript/bin/tsc', ...flags, '--moduleResolution', 'bundler', file];
  return (await startNode(compiler).ended).stdout;
}

it('Kubernetes has each key of the manifests', async () => {
  const files = filesAt('config/deploy/kubernetes*.yaml');
  expect(files.map((file) => basename(file)).toSorted()).toEqual(['kubernetes-replicas.yaml', 'kubernetes.yaml']);
  expect(await manifestFaults(files.map(textOf))).toBe('');
  const wrong = textOf('config/deploy/kubernetes.yaml').replace('replicas: 1', 'replica: 1');
  expect(await manifestFaults([wrong])).toMatch(/'"replica"' does not exist in type 'DeploymentSpec'/);
});

it('systemd takes the unit, where this machine has it', ({ annotate }) => {
  const unit = textOf('config/deploy/worksync.service');
  expect(unit.match(/^\[\w+\]$/gm)).toEqual(['[Unit]', '[Service]', '[Install]']);
  if (!existsSync(ANALYZE)) return annotate('there is no systemd-analyze here: only its sections were read');
  const file = join(folderOfTest('unit'), 'worksync.service');
  // It looks for the program, which is not installed here.
  writeFileSync(file, unit.replace('/usr/local/bin/worksync run', `${process.execPath} --version`));
  const said = execFileSync(ANALYZE, ['verify', '--man=no', file], { encoding: 'utf8', stdio: 'pipe' });
  expect(said).toBe('');
});
