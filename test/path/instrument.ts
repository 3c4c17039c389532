import { cpSync, globSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAst } from 'vitest/node';
import { TOP } from '../support/harness/processes.ts';

/** Copies `src` into `folder`; there each function first calls `enter` with its file. Lines keep their numbers. */
export function instrumentedCopy(folder: string): void {
  for (const name of ['src', 'package.json']) cpSync(join(TOP, name), join(folder, name), { recursive: true });
  symlinkSync(join(TOP, 'node_modules'), join(folder, 'node_modules'));
  for (const file of globSync('**/*.ts', { cwd: join(folder, 'src'), exclude: ['**/fixtures/**'] })) {
    const path = join(folder, 'src', file);
    writeFileSync(path, instrument(readFileSync(path, 'utf8'), file));
  }
}

function instrument(source: string, file: string): string {
  const call = `enter(${JSON.stringify(file)})`;
  const insertions = bodiesIn(parseAst(source, { lang: 'ts' })).flatMap(({ type, start, end }) => {
    if (type === 'BlockStatement') return [{ at: start + 1, text: `globalThis.${call};` }];
    return [
      { at: start, text: `(globalThis.${call},(` },
      { at: end, text: '))' },
    ];
  });
  let copy = source;
  for (const { at, text } of insertions.toSorted((a, b) => b.at - a.at))
    copy = copy.slice(0, at) + text + copy.slice(at);
  return copy;
}

interface Body {
  readonly type: string;
  readonly start: number;
  readonly end: number;
}

function bodiesIn(node: unknown): Body[] {
  if (typeof node !== 'object' || node === null) return [];
  const inner = Object.values(node).flatMap(bodiesIn);
  const { type, body } = node as { readonly type?: string; readonly body?: Body | null };
  const isFunction =
    type === 'FunctionDeclaration' || type === 'FunctionExpression' || type === 'ArrowFunctionExpression';
  return isFunction && body ? [body, ...inner] : inner;
}
