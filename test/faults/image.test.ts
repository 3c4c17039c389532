import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { environmentOf, execForm, type Instruction, ignoredBy, readDockerfile } from '../support/dockerfile.ts';
import { type Running, startNode, TOP } from '../support/processes.ts';

/**
 * No container engine is needed here: the same steps are done in a scratch folder. What only an engine can show (the
 * base image, the user, the mounts) is checked by its words alone.
 */
const instructions = readDockerfile(join(TOP, 'Dockerfile'));
const isIgnored = ignoredBy(join(TOP, '.dockerignore'));
const last = Math.max(...instructions.map(({ stage }) => stage));
const image = instructions.filter(({ stage }) => stage === last);
const env = environmentOf(image);

const scratch = mkdtempSync(join(tmpdir(), 'worksync-image-'));
const app = join(scratch, 'app');
const data = join(scratch, 'data');
const config = join(scratch, 'config');

const WORKSPACE = `
connections:
  hooks:
    connector: github
    repositories: [acme/app]
    webhookSecrets: \${HOOK_SECRET}
    poll: off
`;

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function textOf(keyword: string): string {
  return image.findLast((instruction) => instruction.keyword === keyword)?.text ?? '';
}

/** The container's folders are folders of the scratch folder. */
function here(text: string): string {
  return text.replace(/(^|=)\/(app|data|config)\b/g, (_match, start: string, folder: string) =>
    start.concat(join(scratch, folder)),
  );
}

function inContainer(text: string, more: Readonly<Record<string, string>> = {}): Running {
  const [program, ...args] = execForm(text).map(here);
  expect(program).toBe('node');
  const variables = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, here(value)]));
  // Tests listen on loopback only, on any free port.
  return startNode(args, { cwd: app, env: { ...variables, ...more, WORKSYNC_HOST: '127.0.0.1', WORKSYNC_PORT: '0' } });
}

/** A `COPY` from the build context, as Docker does it. */
function copyFromContext({ text }: Instruction): void {
  const names = text.split(/\s+/);
  const target = join(app, names.pop() ?? '');
  for (const name of names) {
    const isFolder = statSync(join(TOP, name)).isDirectory();
    cpSync(join(TOP, name), isFolder ? target : join(target, basename(name)), {
      recursive: true,
      filter: (source) => !isIgnored(relative(TOP, source)),
    });
  }
}

/** What `npm run` tells its scripts is about this project, not about the copy. */
function npmEnvironment(): NodeJS.ProcessEnv {
  const ours = /^npm_(package|lifecycle|command|execpath|node)|^npm_config_(local_|global_)?prefix$|^INIT_CWD$/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
}

/** Where neither the cache of npm nor a registry is at hand: the packages that `npm ci` would put there. */
function copyProductionPackages(): void {
  const { packages } = JSON.parse(readFileSync(join(TOP, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; devOptional?: boolean }>;
  };
  for (const [path, { dev, devOptional }] of Object.entries(packages)) {
    // Optional ones are those of this machine, as npm would choose them.
    const isWanted = path !== '' && !dev && !devOptional && existsSync(join(TOP, path));
    if (isWanted) cpSync(join(TOP, path), join(app, path), { recursive: true });
  }
}

function install(command: string): void {
  const [npm = '', ...args] = command.split(' ');
  try {
    execFileSync(npm, [...args, '--prefer-offline', '--fetch-retries=0'], {
      cwd: app,
      env: npmEnvironment(),
      stdio: 'pipe',
    });
  } catch (error) {
    const said = String((error as { stderr?: Buffer }).stderr);
    // Without a network the lock file is still judged; anything else that fails would fail in a build too.
    if (!/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|ENOTCACHED/.test(said)) throw error;
    copyProductionPackages();
  }
}

describe('the image', () => {
  it('is built in two stages on one base, and runs as no root', () => {
    expect(instructions.filter(({ keyword }) => keyword === 'FROM').map(({ text }) => text)).toEqual([
      'node:26-slim AS build',
      'node:26-slim',
    ]);
    expect(textOf('USER')).toBe('node');
    expect(textOf('VOLUME')).toBe('/data');
    expect(textOf('EXPOSE')).toBe(env['WORKSYNC_PORT']);
    expect(textOf('STOPSIGNAL')).toBe('SIGTERM');
    expect(textOf('HEALTHCHECK')).toMatch(/^--interval=\d+s --timeout=\d+s --start-period=\d+s --retries=\d+ +CMD \[/);
  });

  it('takes along what it needs, and nothing of this machine', () => {
    const copied = instructions
      .filter(({ keyword, text }) => keyword === 'COPY' && !text.startsWith('--from='))
      .flatMap(({ text }) => text.split(/\s+/).slice(0, -1));
    expect(copied.filter((path) => !existsSync(join(TOP, path)) || isIgnored(path))).toEqual([]);
    const own = ['config/workspaces/own.yaml', 'data/own.db', 'node_modules/x', '.git/config', 'test/x.ts', '.env'];
    expect(own.filter((path) => !isIgnored(path))).toEqual([]);
  });
});

describe('the container', () => {
  beforeAll(() => {
    mkdirSync(app);
    mkdirSync(data);
    mkdirSync(config);
    for (const instruction of instructions) {
      const { keyword, text } = instruction;
      if (keyword === 'COPY' && !text.startsWith('--from=')) copyFromContext(instruction);
      if (keyword === 'RUN' && text.startsWith('npm ')) install(text);
      if (keyword === 'RUN' && text.startsWith('rm ')) execFileSync('rm', text.split(' ').slice(1), { cwd: app });
    }
  });

  it('says what to mount when it has no workspace', async () => {
    const { code, stderr } = await inContainer(textOf('CMD')).ended;
    expect(code).toBe(78);
    expect(stderr).toContain(`${config}: the folder contains no *.yaml file`);
  });

  it('becomes ready, answers its health check, and ends within 8 s of SIGTERM', async () => {
    writeFileSync(join(config, 'team.yaml'), WORKSPACE);
    const secret = join(scratch, 'secret');
    writeFileSync(secret, 'a secret of sixteen or more\n', { mode: 0o600 });
    const daemon = inContainer(textOf('CMD'), { HOOK_SECRET_FILE: secret });
    const said = await daemon.says('Status page: ');
    const address = /Status page: (\S+)\//.exec(said)?.[1];
    expect((await fetch(`${address}/readyz`)).status).toBe(200);
    expect(await inContainer(textOf('HEALTHCHECK')).ended).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(existsSync(join(data, 'worksync.db'))).toBe(true);

    const { code, stderr } = await daemon.end(textOf('STOPSIGNAL') as NodeJS.Signals);
    expect(code).toBe(0);
    // Nothing but log lines: the flags of CMD make Node warn, unless told not to.
    for (const line of stderr.trim().split('\n')) expect(() => JSON.parse(line)).not.toThrow();
    expect((await inContainer(textOf('HEALTHCHECK')).ended).code).not.toBe(0);
  });
});
