import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Ended, type StartOptions, startNode } from '../support/harness/processes.ts';

/** Packages that a command for people and containers may load. Any other takes longer than the whole command may. */
const LIGHT = ['commander', 'fastest-levenshtein'];

interface Loaded extends Ended {
  readonly packages: readonly string[];
  /** Relative to `src`. */
  readonly files: readonly string[];
  readonly builtins: readonly string[];
}

async function loadedBy(args: readonly string[], options: StartOptions = {}): Promise<Loaded> {
  const ended = await startNode(['--import', './test/support/harness/tell-loads.ts', 'src/main.ts', ...args], options)
    .ended;
  const urls = [...ended.stderr.matchAll(/^loads (.+)$/gm)].map((match) => match[1] as string);
  const matches = (pattern: RegExp) => [...new Set(urls.flatMap((url) => pattern.exec(url)?.[1] ?? []))].sort();
  return {
    ...ended,
    packages: matches(/\/node_modules\/((?:@[^/]+\/)?[^/]+)\//),
    files: matches(/\/src\/(.+\.ts)$/),
    builtins: matches(/^node:(.+)$/),
  };
}

describe('a command loads only what it needs', () => {
  const data = mkdtempSync(join(tmpdir(), 'worksync-loads-'));
  const server = createServer((_request, response) => response.end('ok'));

  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    mkdirSync(join(data, 'gone'));
    const announce = (folder: string, port: number) =>
      writeFileSync(join(folder, 'daemon.json'), JSON.stringify({ address: `http://127.0.0.1:${port}`, token: 't' }));
    announce(data, (server.address() as AddressInfo).port);
    // Nobody listens there.
    announce(join(data, 'gone'), 1);
  });
  afterAll(() => {
    server.close();
    rmSync(data, { recursive: true });
  });

  it('healthcheck: neither a package but the one for the command line, nor an HTTP client', async () => {
    const { code, packages, builtins } = await loadedBy(['healthcheck', '--data', data]);
    expect(code).toBe(0);
    expect(packages).toEqual(LIGHT);
    expect(builtins).not.toContain('http');
    expect(builtins).not.toContain('crypto');
  });

  it('status: its own file and what it asks with', async () => {
    const { code, packages, files, builtins } = await loadedBy(['status', '--data', join(data, 'gone')]);
    expect(code).toBe(75);
    expect(packages).toEqual(LIGHT);
    expect(builtins).toContain('http');
    expect(files.filter((file) => /^(?:connectors|daemon|workspace-api|reference-service)\//.test(file))).toEqual([]);
  });

  it('ci: its own files and what it asks with', async () => {
    const env = { WORKSYNC_URL: 'http://127.0.0.1:1', WORKSYNC_TOKEN: 'wsg_a-token-for-nobody' };
    const asked = ['ci', '--pull-request', 'acme/app#7'];
    const { code, packages, files, builtins } = await loadedBy(asked, { env });
    expect(code).toBe(75);
    expect(packages).toEqual(LIGHT);
    expect(builtins).toContain('http');
    expect(builtins).not.toContain('https');
    expect(
      files.filter((file) => !/^(?:cli|model\/errors|platform\/(?:lib|http|database)|main)\b/.test(file)),
    ).toMatchInlineSnapshot(`
      [
        "admin/tasks/ci-job.ts",
        "model/build.ts",
        "model/git-providers.ts",
        "model/text-limits.ts",
        "platform/config/daemon-options.ts",
        "platform/config/interpolate.ts",
        "platform/observe/scrubber.ts",
        "store/installation/daemon-file.ts",
        "web/admin-answers.ts",
      ]
    `);
  });

  it.each([['--version'], ['--help'], ['plna']])(
    '%s: what names, options and help need, of all commands',
    async (word) => {
      const { packages, files } = await loadedBy([word]);
      expect(packages).toEqual([...LIGHT, 'secure-json-parse']);
      expect(files).not.toContain('cli/session.ts');
    },
  );
});
