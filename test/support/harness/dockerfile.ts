import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { escapePattern } from '../../../src/platform/lib/text.ts';

/** One instruction of a Dockerfile, in the stage it belongs to; stages count from 0. */
export interface Instruction {
  readonly stage: number;
  readonly keyword: string;
  readonly text: string;
}

/** Reads the instructions: comments gone, continued lines joined. */
export function readDockerfile(file: string): readonly Instruction[] {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line.trim() !== '');
  let stage = -1;
  return lines.map((line) => {
    const [keyword = '', text = ''] = line.split(/\s+(.*)/s);
    if (keyword === 'FROM') stage++;
    return { stage, keyword, text };
  });
}

/** The words of an instruction in exec form; fails on the shell form. */
export function execForm(text: string): readonly string[] {
  return JSON.parse(text.slice(text.indexOf('['))) as string[];
}

export function environmentOf(instructions: readonly Instruction[]): Readonly<Record<string, string>> {
  const pairs = instructions.filter(({ keyword }) => keyword === 'ENV').flatMap(({ text }) => text.split(/\s+/));
  return Object.fromEntries(pairs.map((pair) => pair.split('=') as [string, string]));
}

/** The words with which the program of the image starts Node, in this environment. */
export function entryWords(env: Readonly<Record<string, string>>): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-entry-'));
  try {
    writeFileSync(join(folder, 'node'), '#!/bin/sh\nprintf "%s\\n" "$@"\n', { mode: 0o755 });
    const program = join(import.meta.dirname, '../../../config/deploy/worksync');
    const printed = execFileSync('sh', [program], {
      encoding: 'utf8',
      env: { ...env, PATH: `${folder}:${process.env['PATH']}` },
    });
    return printed.trim().split('\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Whether a path of the build context is left out. As Docker reads `.dockerignore`, for patterns without wildcards but `*`,
 * which stands for anything within a name: the last one that names the path or a folder above it decides.
 */
export function ignoredBy(file: string): (path: string) => boolean {
  const patterns = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  return (path) => {
    const names = (pattern: string) =>
      new RegExp(`^${pattern.split('*').map(escapePattern).join('[^/]*')}(/|$)`).test(path);
    return patterns.findLast((pattern) => names(pattern.replace(/^!/, '')))?.startsWith('!') === false;
  };
}
