import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { escapePattern } from '../../src/platform/lib/text.ts';
import { TOP } from '../support/processes.ts';
import type { Proof } from '../support/proofs.ts';

/** A test that ran, as vitest reports it. */
export interface Ran {
  readonly file: string;
  readonly title: string;
  /** Titles of what it stands in. */
  readonly above: readonly string[];
  readonly passed: boolean;
  readonly cases: number;
}

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly {
      readonly title: string;
      readonly ancestorTitles: readonly string[];
      readonly status: string;
      readonly meta?: { readonly cases?: number };
    }[];
  }[];
}

/** Runs the tests of these proofs in these projects, and no others; their output goes to standard error. */
export function runTests(projects: readonly string[], proofs: readonly Proof[]): readonly Ran[] {
  const files = [...new Set(proofs.map(([file]) => file))];
  if (files.length === 0) return [];
  const folder = mkdtempSync(join(tmpdir(), 'worksync-evidence-'));
  const report = join(folder, 'report.json');
  const names = proofs.flatMap(([, test]) => (test === undefined ? [] : [sourceOf(test)]));
  const args = [
    ...['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/vitest.config.ts', ...files],
    ...projects.flatMap((name) => ['--project', name]),
    ...['--testNamePattern', [...new Set(names)].join('|')],
    ...['--reporter=dot', '--reporter=json', `--outputFile.json=${report}`],
  ];
  try {
    spawnSync(process.execPath, args, { cwd: TOP, stdio: ['ignore', 2, 2] });
    return testsIn(JSON.parse(readFileSync(report, 'utf8')) as Report);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function testsIn({ testResults }: Report): readonly Ran[] {
  return testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'passed' || status === 'failed')
      .map(({ title, ancestorTitles, status, meta }) => ({
        ...{ file: relative(TOP, name), title, above: ancestorTitles },
        ...{ passed: status === 'passed', cases: meta?.cases ?? 0 },
      })),
  );
}

/** Whether a test is what a proof names: by its own title, or by that of what it stands in. */
export function isNamed({ file, title, above }: Ran, [named, test]: Proof): boolean {
  if (file !== named || test === undefined) return false;
  const pattern = new RegExp(`^${sourceOf(test)}$`);
  return [title, ...above].some((each) => pattern.test(each));
}

/** A title of several cases holds places for their values: `%s`, `$name`, `${'$'}{what}`. */
function sourceOf(test: string): string {
  const parts = test.split(/%[sdijof%#]|\$\{[^}]+\}|\$[a-z][\w.]*/);
  return parts.map(escapePattern).join('.*');
}
