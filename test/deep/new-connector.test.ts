import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TOP } from '../support/harness/processes.ts';

const run = promisify(execFile);
/** Two words, so that it is another text as a folder, in code, as a variable and for people. */
const KINDS = [
  ['tracker', 'night-desk'],
  ['git', 'night-forge'],
] as const;
const NOT_COPIED = new Set(['.git', 'data', 'node_modules']);

let copy: string;
const inCopy = (command: string, ...args: readonly string[]) =>
  run(command, args, { cwd: copy, env: { PATH: process.env['PATH'], HOME: copy, TZ: 'UTC' }, maxBuffer: 64 << 20 });
const tool = (name: string) => join(copy, 'node_modules/.bin', name);
const make = (...given: readonly string[]) => inCopy(process.execPath, 'test/support/new-connector/main.ts', ...given);

beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), 'worksync-new-connector-'));
  for (const name of readdirSync(TOP).filter((each) => !NOT_COPIED.has(each)))
    cpSync(join(TOP, name), join(copy, name), { recursive: true });
  symlinkSync(join(TOP, 'node_modules'), join(copy, 'node_modules'));
});
afterAll(() => rmSync(copy, { recursive: true, force: true }));

describe('npm run new:connector', () => {
  it.each(['', 'Night', '../night', 'night_desk', '9night'])('refuses %j, and writes nothing', async (id) => {
    const registry = readFileSync(join(copy, 'src/connectors/registry.ts'), 'utf8');
    await expect(make(id)).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('no usable id') });
    expect(readFileSync(join(copy, 'src/connectors/registry.ts'), 'utf8')).toBe(registry);
  });

  it.each(KINDS)('makes a %s, and leaves one that is there alone', async (kind, id) => {
    const { stdout } = await make(id, kind);
    const named = [...stdout.matchAll(/^ {2}(\S+)$/gm)].map(([, path = '']) => path);
    expect(named).toContain(`src/connectors/${id}/index.ts`);
    expect(named.filter((path) => !existsSync(join(copy, path)))).toEqual([]);
    const placeholders = named.filter((path) => /__\w+__/.test(readFileSync(join(copy, path), 'utf8')));
    expect(placeholders).toEqual([]);
    await expect(make(id)).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('is there already') });
  });

  it('whose types, form and generated files are right', async () => {
    const written = [
      'src/connectors',
      'src/model',
      'test/contracts',
      'test/support',
      'test/laws',
      'test/faults',
      'README.md',
    ];
    await expect(inCopy(tool('tsc'), '--noEmit')).resolves.toBeDefined();
    await expect(inCopy(tool('biome'), 'check', ...written)).resolves.toBeDefined();
    await expect(inCopy(process.execPath, 'src/main.ts', 'generate', '--check')).resolves.toBeDefined();
  });

  it('whose contracts and laws hold', async () => {
    await inCopy(
      tool('vitest'),
      ...[
        'run',
        '--config',
        'test/vitest.config.ts',
        '--project',
        'fast',
        '--project',
        'whole',
        '--reporter',
        'json',
        '--outputFile',
        'report.json',
      ],
      ...['test/contracts/connectors.test.ts', 'test/laws/provider-order.test.ts', 'test/laws/scope-names.test.ts'],
      'test/unit/platform/config/generated-files.test.ts',
      ...['-t', `${KINDS.map(([, id]) => id).join('|')}|the registry|every connector`],
    );
    const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(join(copy, 'report.json'), 'utf8')) as Readonly<
      Record<string, number>
    >;
    expect(numFailedTests).toBe(0);
    expect(numPassedTests).toBeGreaterThan(160);
  });
});
