import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import BetterSqlite from 'better-sqlite3';
import { INSTALLATION_FILE } from '../../src/store/installation/installation.ts';
import { postPull } from '../support/harness/post-pull.ts';
import { startNode, startWorksync, TOP } from '../support/harness/processes.ts';

/**
 * `npm run path`: prints the files of `src` that run for one webhook of GitHub about a pull request that names a task, from its
 * receipt until its requests to the workspace are settled, with the number of lines. Lines that also run in an idle daemon are left out.
 * `-- --idle 70`: seconds that the daemon is observed while idle; the default includes each job that runs once a minute.
 */
const { values } = parseArgs({ options: { idle: { type: 'string', default: '70' } } });

const SECRET = 'a-secret-of-sixteen-or-more';
/** With SIGUSR2 the daemon writes what ran since the last time. */
const COVERED = 'data:text/javascript,import v8 from "node:v8"; process.on("SIGUSR2", () => v8.takeCoverage());';

const folder = mkdtempSync(join(tmpdir(), 'worksync-path-'));
const [data, coverage] = [join(folder, 'data'), join(folder, 'coverage')];
const service = startWorksync(['workspace', 'serve', '--port', '0', '--db', join(folder, 'service.db'), '--json']);
let daemon: ReturnType<typeof startNode> | undefined;
try {
  const { url, apiKey } = JSON.parse(await service.says('\n')) as { url: string; apiKey: string };
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ title: 'It breaks' });
  const created = await fetch(`${url}/workspaces/current/bugs`, { method: 'POST', headers, body });
  const { key } = (await created.json()) as { key: string };
  const connection = `{ connector: github, repositories: [acme/app], webhookSecrets: ${SECRET}, poll: off }`;
  const workspace = `workspace: { url: "${url}", apiKey: ${apiKey}, sweep: off }`;
  writeFileSync(join(folder, 'own.yaml'), `${workspace}\nconnections:\n  hooks: ${connection}\n`);
  daemon = startNode(
    ['--import', COVERED, 'src/main.ts', 'run', '--config', join(folder, 'own.yaml'), '--data', data, '--port', '0'],
    { env: { NODE_V8_COVERAGE: coverage } },
  );
  const address = /Status page: (\S+)\//.exec(await daemon.says('Status page'))?.[1];
  await settled();
  // Work that follows the start without a row: timers, the first heartbeats.
  await sleep(10_000);
  await linesRun(daemon);
  await sleep(1_000 * Number(values.idle));
  const idle = await linesRun(daemon);
  const pull = { title: `Repair it (${key})`, updated: new Date().toISOString() };
  const status = await postPull(`${address}/webhooks/own/hooks`, SECRET, 1, pull);
  if (status !== 202) throw new Error(`the webhook was answered ${status}`);
  await settled();
  const lines = await linesRun(daemon);
  const path = [...lines.keys()].filter((file) => !idle.has(file));
  for (const file of path.toSorted()) print(`${file} ${lines.get(file)?.length}`);
  const onlyThen = [...lines].flatMap(([file, ran]) => ran.filter((line) => !idle.get(file)?.includes(line)));
  print(`${path.length} files and ${onlyThen.length} lines run for a webhook only, ${lines.size} files in all`);
} finally {
  await daemon?.end();
  await service.end();
  rmSync(folder, { recursive: true, force: true });
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

interface Script {
  readonly url: string;
  readonly functions: readonly {
    readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[];
  }[];
}

/** Numbers of the lines that the main thread ran since the previous call, by file of `src`. */
async function linesRun({ child }: ReturnType<typeof startNode>): Promise<ReadonlyMap<string, readonly number[]>> {
  child.kill('SIGUSR2');
  await sleep(3_000);
  const lines = new Map<string, readonly number[]>();
  for (const name of readdirSync(coverage).filter((each) => each.endsWith('-0.json'))) {
    const { result } = JSON.parse(readFileSync(join(coverage, name), 'utf8')) as { result: readonly Script[] };
    for (const { url, functions } of result.filter((each) => each.url.includes('/src/'))) {
      const file = url.slice(url.indexOf('/src/') + '/src/'.length);
      const ran = linesOf(readFileSync(join(TOP, 'src', file), 'utf8'), functions);
      if (ran.length > 0) lines.set(file, ran);
    }
  }
  rmSync(coverage, { recursive: true });
  return lines;
}

/** Blank lines and comments are left out. */
function linesOf(source: string, functions: Script['functions']): number[] {
  const ran = new Uint8Array(source.length);
  const size = ({ ranges: [whole] }: Script['functions'][number]) => whole!.endOffset - whole!.startOffset;
  for (const { ranges } of functions.toSorted((a, b) => size(b) - size(a)))
    for (const { startOffset, endOffset, count } of ranges) ran.fill(Math.min(count, 1), startOffset, endOffset);
  let offset = 0;
  return source.split('\n').flatMap((line, index) => {
    const first = offset + line.search(/\S/);
    offset += line.length + 1;
    return /^\s*(?:$|\/\/|\/?\*)/.test(line) || ran[first] === 0 ? [] : [index + 1];
  });
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
