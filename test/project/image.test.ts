import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { entryWords, environmentOf, execForm, ignoredBy, readDockerfile } from '../support/harness/dockerfile.ts';
import { TOP } from '../support/harness/processes.ts';

/** Reads the Dockerfile; `test/deep/image.test.ts` runs its steps. */
const instructions = readDockerfile(join(TOP, 'Dockerfile'));
const isIgnored = ignoredBy(join(TOP, '.dockerignore'));
const last = Math.max(...instructions.map(({ stage }) => stage));
const image = instructions.filter(({ stage }) => stage === last);
/** The stage before says some of it. */
const env = environmentOf(instructions);

function textOf(keyword: string): string {
  return image.findLast((instruction) => instruction.keyword === keyword)?.text ?? '';
}

describe('the image', () => {
  it('brings its compiled code along', () => {
    const { NODE_COMPILE_CACHE: cache } = env;
    const entry = entryWords(env).join(' ');
    expect(cache).toBe('/app/.cache');
    // Under its permission model Node reads compiled code only where it might write; only root can.
    expect(entry).toContain(`--allow-fs-write=${cache}`);
    expect(instructions.map(({ text }) => text)).toContain('chmod -R a+rX .cache');
    const copied = image.filter(({ keyword }) => keyword === 'COPY').map(({ text }) => text);
    expect(copied).toContain(`--from=cache ${cache} ./.cache`);
    const compiled = instructions.filter(({ keyword, text }) => keyword === 'RUN' && text.includes(' src/main.ts '));
    // Node keeps code apart by these flags.
    const flags = (text: string) => text.match(/--(?:disable-sigusr1|max-semi-space-size)\S*/g);
    expect(new Set(compiled.map(({ text }) => flags(text)?.join()))).toEqual(new Set([flags(entry)?.join()]));
  });

  it('may write data, backups and the step summary of GitHub Actions, and nothing else', () => {
    const words = entryWords({ ...env, GITHUB_STEP_SUMMARY: '/__w/summary 1.md' });
    const places = words.flatMap((word) => word.match(/(?<=^--allow-fs-write=).*/) ?? []);
    const allowed = ['/__w/summary 1.md', env['WORKSYNC_BACKUP'], env['WORKSYNC_DATA'], '/dev/shm', '/app/.cache'];
    expect(new Set(places)).toEqual(new Set(allowed));
    const owned = image.find(({ text }) => text.includes('chown 1000:1000'))?.text;
    expect(owned).toContain(`${env['WORKSYNC_DATA']} ${env['WORKSYNC_BACKUP']}`);
    expect(words.at(-1)).toBe('/app/src/main.ts');
  });

  it('is built on one base that a build pins, and runs as no root [A16]', () => {
    const bases = instructions.filter(({ keyword }) => keyword === 'FROM').map(({ text }) => text.split(' ')[0]);
    expect(new Set(bases)).toEqual(new Set([`$\{NODE_IMAGE}`, 'app']));
    // As a number: Kubernetes cannot tell whether a name is root.
    expect(textOf('USER')).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(execForm(textOf('ENTRYPOINT'))).toEqual(['worksync']);
    expect(execForm(textOf('HEALTHCHECK'))).toEqual(['worksync-healthcheck']);
    expect(textOf('VOLUME')).toBe('/data');
    expect(textOf('EXPOSE')).toBe(env['WORKSYNC_PORT']);
    expect(textOf('STOPSIGNAL')).toBe('SIGTERM');
    expect(textOf('HEALTHCHECK')).toMatch(/^--interval=\d+s --timeout=\d+s --start-period=\d+s --retries=\d+ +CMD \[/);
  });

  it('has packages and source in layers of their own, and no build argument that could be a secret', () => {
    const copied = instructions.filter(({ keyword }) => keyword === 'COPY').map(({ text }) => text);
    expect(copied.indexOf('src ./src')).toBeGreaterThan(
      copied.indexOf('--from=packages /app/node_modules ./node_modules'),
    );
    const set = instructions.filter(({ keyword }) => ['ARG', 'ENV'].includes(keyword)).map(({ text }) => text);
    expect(set.filter((text) => /key|token|secret|password/i.test(text))).toEqual([]);
  });

  it('takes along what it needs, and nothing of this machine', () => {
    const copied = instructions
      .filter(({ keyword, text }) => keyword === 'COPY' && !text.startsWith('--from='))
      .flatMap(({ text }) => text.split(/\s+/).slice(0, -1))
      .filter((word) => !word.startsWith('--'));
    expect(copied.filter((path) => !existsSync(join(TOP, path)) || isIgnored(path))).toEqual([]);
    const own = ['config/workspaces/own.yaml', 'data/own.db', 'node_modules/x', '.git/config', 'test/x.ts', '.env'];
    expect(own.filter((path) => !isIgnored(path))).toEqual([]);
  });
});
