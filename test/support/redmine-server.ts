import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startProgram } from './processes.ts';

/** Where the package of Debian puts it. */
const HOME = '/usr/share/redmine';
const APT = '/usr/bin/apt-get';
const PACKAGES = ['redmine', 'redmine-sqlite', 'puma'];

/** Why there can be no Redmine on this machine; undefined where there can. */
export function noRedmine(): string | undefined {
  if (existsSync(HOME)) return undefined;
  if (!existsSync(APT)) return 'it is not installed, and there is no apt-get';
  return process.getuid?.() === 0 ? undefined : 'it is not installed, and only root may install it';
}

export interface RedmineServer {
  readonly url: string;
  /** Of its administrator. */
  readonly apiKey: string;
  stop(): Promise<void>;
}

/** Enables the REST service, and tells the administrator's key. */
const PREPARE = `
Setting.rest_api_enabled = '1'
admin = User.find_by_login('admin')
admin.update_columns(must_change_passwd: false)
puts "the key is #{admin.api_key}"
`;

/**
 * Starts a Redmine on loopback over a database of its own in this folder, and installs it first where it is not there. What
 * the package itself has set up is left alone.
 */
export async function startRedmine(folder: string): Promise<RedmineServer> {
  if (!existsSync(HOME)) await install();
  const env = {
    DATABASE_URL: `sqlite3:${join(folder, 'redmine.sqlite3')}`,
    RAILS_ENV: 'production',
    RAILS_LOG_TO_STDOUT: '1',
    REDMINE_LANG: 'en',
  };
  const prepare = join(folder, 'prepare.rb');
  writeFileSync(prepare, PREPARE);
  await run('bin/rake', ['db:migrate'], env);
  await run('bin/rake', ['redmine:load_default_data'], env);
  const apiKey = /the key is (\w+)/.exec(await run('bin/rails', ['runner', prepare], env))?.[1];
  if (apiKey === undefined) throw new Error('the administrator of this Redmine has no key');
  const args = ['-e', 'production', '-b', 'tcp://127.0.0.1:0', '-t', '1:4', '--dir', HOME, join(HOME, 'config.ru')];
  const server = startProgram('puma', args, { env, cwd: folder });
  const said = await server.says('Use Ctrl-C to stop');
  const url = /Listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(said)?.[1];
  if (url === undefined) throw new Error(`puma listens nowhere:\n${said}`);
  return {
    url,
    apiKey,
    async stop() {
      await server.end();
    },
  };
}

async function install(): Promise<void> {
  const env = { DEBIAN_FRONTEND: 'noninteractive' };
  await run(APT, ['update'], env, '/');
  await run(APT, ['install', '--yes', '--no-install-recommends', ...PACKAGES], env, '/');
}

/** To its end; what it said. */
async function run(program: string, args: readonly string[], env: Record<string, string>, cwd = HOME): Promise<string> {
  const { code, stdout, stderr } = await startProgram(program, args, { env, cwd }).ended;
  if (code === 0) return stdout;
  throw new Error(`${program} ${args.join(' ')} ended with ${code}\n${(stdout + stderr).slice(-4_000)}`);
}
