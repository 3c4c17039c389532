import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import BetterSqlite from 'better-sqlite3';
import { INSTALLATION_FILE } from '../../src/store/installation/installation.ts';
import { postPull } from '../support/harness/post-pull.ts';
import { COMPILE_CACHE, startWorksync, TOP } from '../support/harness/processes.ts';
import type { Trace } from './inside.ts';
import { instrumentedCopy } from './instrument.ts';

/**
 * `npm run path`: prints the files of `src` that run for one webhook of GitHub about a pull request that names a task, from its
 * receipt until its requests to the workspace are settled, with the number of lines. Lines that also run in an idle daemon are left out.
 * Prints also how often a call enters another folder, and how many pairs of folders these are. The folders are the layers of
 * `src/README.md`: the topics within a layer count as one folder, and each vendor is one.
 * `-- --idle 70`: seconds that the daemon is observed while idle; the default includes each job that runs once a minute.
 */
const { values } = parseArgs({ options: { idle: { type: 'string', default: '70' } } });

const SECRET = 'a-secret-of-sixteen-or-more';

const folder = mkdtempSync(join(tmpdir(), 'worksync-path-'));
const data = join(folder, 'data');
const service = startWorksync(['workspace', 'serve', '--port', '0', '--db', join(folder, 'service.db'), '--json']);
let daemon: ChildProcess | undefined;
try {
  const { url, apiKey } = JSON.parse(await service.says('\n')) as { url: string; apiKey: string };
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ title: 'It breaks' });
  const created = await fetch(`${url}/workspaces/current/bugs`, { method: 'POST', headers, body });
  const { key } = (await created.json()) as { key: string };
  daemon = startDaemon(url, apiKey);
  const address = await addressOf(daemon);
  await settled();
  // Work that follows the start without a row: timers, the first heartbeats.
  await sleep(10_000);
  await traceOf(daemon);
  await sleep(1_000 * Number(values.idle));
  const idle = await traceOf(daemon);
  const status = await postPull(`${address}/webhooks/own/hooks`, SECRET, 1, {
    title: `Repair it (${key})`,
    updated: new Date().toISOString(),
  });
  if (status !== 202) throw new Error(`the webhook was answered ${status}`);
  await settled();
  const { lines, calls } = await traceOf(daemon);
  const path = Object.keys(lines).filter((file) => !idle.lines[file]);
  for (const file of path.toSorted()) print(`${file} ${lines[file]!.length}`);
  const isIdle = (file: string, line: number) => idle.lines[file]?.includes(line);
  const onlyThen = Object.entries(lines).flatMap(([file, ran]) => ran.filter((line) => !isIdle(file, line)));
  const folders = calls.map(folderOf);
  const changes = folders.flatMap((folder, index) => {
    const before = folders[index - 1];
    return before === undefined || folder === before ? [] : [[before, folder].toSorted().join(' ')];
  });
  print(
    `${path.length} files and ${onlyThen.length} lines run for a webhook only, ${Object.keys(lines).length} files in all`,
  );
  print(`${changes.length} calls enter another folder, of ${new Set(changes).size} pairs of folders`);
} finally {
  daemon?.kill();
  if (daemon && daemon.exitCode === null) await once(daemon, 'close');
  await service.end();
  rmSync(folder, { recursive: true, force: true });
}

/** `store/items/items.ts` → `store`, `sync/outbox/outbox.ts` → `sync/outbox`, `connectors/kit/git.ts` → `connectors/kit` */
function folderOf(file: string): string {
  const depth = /^(platform|sync|connectors)\//.test(file) ? 2 : 1;
  return file.split('/').slice(0, depth).join('/');
}

function startDaemon(url: string, apiKey: string): ChildProcess {
  const connection = `{ connector: github, repositories: [acme/app], webhookSecrets: ${SECRET}, poll: off }`;
  const workspace = `workspace: { url: "${url}", apiKey: ${apiKey}, sweep: off }`;
  const config = join(folder, 'own.yaml');
  writeFileSync(config, `${workspace}\nconnections:\n  hooks: ${connection}\n`);
  instrumentedCopy(folder);
  return fork('src/main.ts', ['run', '--config', config, '--data', data, '--port', '0'], {
    cwd: folder,
    execArgv: ['--import', join(TOP, 'test/path/inside.ts')],
    env: { ...process.env, NODE_COMPILE_CACHE: COMPILE_CACHE },
    silent: true,
  });
}

/** Resolves when the daemon has printed its address. */
function addressOf({ stdout, stderr }: ChildProcess): Promise<string> {
  let printed = '';
  stderr?.resume();
  return new Promise((resolve, reject) => {
    stdout?.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      const address = /Status page: (\S+)\//.exec(printed)?.[1];
      if (address !== undefined) resolve(address);
    });
    stdout?.once('end', () => reject(new Error(`the daemon ended: ${printed}`)));
  });
}

/** Waits until no delivery and no change is left. The database is read from outside, so that the daemon answers no question. */
async function settled(): Promise<void> {
  const database = new BetterSqlite(join(data, INSTALLATION_FILE), { readonly: true });
  try {
    const left = database
      .prepare("select (select count(*) from inbox where state = 'pending') + (select count(*) from outbox)")
      .pluck();
    for (let calm = 0; calm < 3; calm = left.get() === 0 ? calm + 1 : 0) await sleep(500);
  } finally {
    database.close();
  }
}

/** Reads the trace since the previous call. */
async function traceOf(child: ChildProcess): Promise<Trace> {
  const answer = once(child, 'message');
  child.send('trace');
  return (await answer)[0] as Trace;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
