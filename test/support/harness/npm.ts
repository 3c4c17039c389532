import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TOP } from './processes.ts';

/** Variables that `npm run` sets for its scripts are about this project, not about another folder. */
function npmEnvironment(): NodeJS.ProcessEnv {
  const ours = /^npm_(package|lifecycle|command|execpath|node)|^npm_config_(local_|global_)?prefix$|^INIT_CWD$/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
}

/** Returns false where neither the cache of npm nor a registry is at hand; throws on anything else that goes wrong. */
export function npm(folder: string, ...args: readonly string[]): boolean {
  try {
    execFileSync('npm', [...args, '--prefer-offline', '--fetch-retries=0', '--no-audit', '--no-fund'], {
      cwd: folder,
      env: npmEnvironment(),
      stdio: 'pipe',
    });
    return true;
  } catch (error) {
    const said = String((error as { stderr?: Buffer }).stderr);
    if (!/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|ENOTCACHED/.test(said)) throw error;
    return false;
  }
}

/** The packages that npm would install for production, from those of this project. */
export function copyProductionPackages(folder: string): void {
  const { packages } = JSON.parse(readFileSync(join(TOP, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; devOptional?: boolean }>;
  };
  for (const [path, { dev, devOptional }] of Object.entries(packages)) {
    // Optional ones are those of this machine, as npm would choose them.
    const isWanted = path !== '' && !dev && !devOptional && existsSync(join(TOP, path));
    if (isWanted) cpSync(join(TOP, path), join(folder, path), { recursive: true });
  }
}
