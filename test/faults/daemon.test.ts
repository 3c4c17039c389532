import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { NO_QUOTA, startWorkspaceService, type TestService } from '../support/fakes/workspace-service.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { isDeep } from '../support/harness/depth.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { postPull } from '../support/harness/post-pull.ts';
import { type Running, startPatientDaemon, TOP } from '../support/harness/processes.ts';
import { nextTurnOfLoop } from '../support/harness/statements.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

/** If one of these is ever printed, it is found. */
const WEBHOOK_SECRET = 'canary-webhook-secret-4f1d';
const secrets = new Set([WEBHOOK_SECRET]);
/** Everything that any process of this file has printed. */
const outputs: string[] = [];

let folder: string;
let service: TestService;
let config: string;
let isSlow: boolean;
const started: Running[] = [];

beforeEach(async () => {
  folder = folderOfTest('processes');
  isSlow = false;
  service = await startWorkspaceService({
    quota: NO_QUOTA,
    faults: { before: async () => (isSlow ? pause(300, undefined) : undefined) },
  });
  const { url, apiKey, oauthToken } = service;
  for (const secret of [apiKey, oauthToken]) secrets.add(secret);
  config = writeConfig({ workspace: { url, apiKey } });
});

afterEach(async () => {
  for (const { child, ended } of started.splice(0)) {
    child.kill('SIGKILL');
    const { stdout, stderr } = await ended;
    outputs.push(stdout, stderr);
  }
  await service.close();
});

function writeConfig(changed: object): string {
  const path = join(folder, 'config');
  mkdirSync(path, { recursive: true });
  const content = {
    quota: { requests: 100_000, burst: 100_000, share: 1 },
    connections: {
      github: { connector: 'github', repositories: ['acme/app'], webhookSecrets: WEBHOOK_SECRET, poll: 'off' },
    },
    ...changed,
  };
  writeFileSync(join(path, 'test.yaml'), stringify(content));
  return path;
}

const data = () => join(folder, 'data');
const flags = (dataFolder = data()) => ['--config', config, '--data', dataFolder, '--port', '0', '--log-level'];

interface Up {
  readonly running: Running;
  readonly address: string;
}

async function startDaemon(): Promise<Up> {
  const running = startPatientDaemon([...flags(), 'debug']);
  started.push(running);
  await running.says('worksync runs.');
  const { address, token } = JSON.parse(readFileSync(join(data(), 'daemon.json'), 'utf8')) as Record<string, string>;
  secrets.add(token as string);
  return { running, address: address as string };
}

async function command(...args: readonly string[]) {
  const ended = await commandLine(...args, 'silent');
  outputs.push(ended.stdout, ended.stderr);
  return ended;
}

const post = (address: string, number: number) => postPull(`${address}/webhooks/test/github`, WEBHOOK_SECRET, number);

describe('SIGTERM', () => {
  /** Ten senders post one pull request after another until nobody listens; what was acknowledged is noted. */
  function putUnderLoad(address: string): { acknowledged: Set<number>; ended: Promise<unknown> } {
    const acknowledged = new Set<number>();
    let next = 1;
    const sender = async () => {
      for (;;) {
        const number = next++;
        const answer = await post(address, number);
        if (answer === 202) acknowledged.add(number);
        if (answer === 'refused') return;
      }
    };
    return { acknowledged, ended: Promise.all(Array.from({ length: 10 }, sender)) };
  }

  /** The answers of `/readyz` until the daemon stops listening, without repetitions. */
  async function watchReadiness(address: string): Promise<(number | 'refused')[]> {
    const seen: (number | 'refused')[] = [];
    while (seen.at(-1) !== 'refused') {
      const answer = await fetch(`${address}/readyz`).then(
        ({ status }) => status,
        () => 'refused' as const,
      );
      if (answer !== seen.at(-1)) seen.push(answer);
    }
    return seen;
  }

  it.runIf(isDeep)('under load ends with 0, readiness first, and loses nothing that was acknowledged', async () => {
    const { running, address } = await startDaemon();
    isSlow = true;
    const load = putUnderLoad(address);
    while (load.acknowledged.size < 50) await nextTurnOfLoop();
    const readiness = watchReadiness(address);
    const { code } = await running.end('SIGTERM');
    expect(code).toBe(0);
    expect(['200 503 refused', '200 refused', '503 refused', 'refused']).toContain((await readiness).join(' '));
    await load.ended;

    isSlow = false;
    expect(await command('once', ...flags())).toMatchObject({ code: 0 });
    expect((await service.service.statistics()).pullRequests).toBeGreaterThanOrEqual(load.acknowledged.size);
  });

  it('while the workspace does not answer waits 5 s for it, stores the rest, and the next start sends it', async () => {
    const answer = Promise.withResolvers<undefined>();
    let held = 0;
    let isSilent = false;
    const before = async () => {
      if (!isSilent) return undefined;
      held++;
      return answer.promise;
    };
    const world = await createWorld({ faults: { before } });
    /** Requests without an answer are real work, and none of it ends here: time has to be moved by hand. */
    const pass = async (ms: number, isOver: () => boolean) => {
      for (let at = 0; at < ms && !isOver(); at += 10) {
        await world.clock.advance(10);
        await nextTurnOfLoop();
      }
    };
    try {
      await world.settled();
      isSilent = true;
      expect(await world.deliver('pull_request', pullEvent())).toBe(202);
      await pass(Number.POSITIVE_INFINITY, () => held > 0);
      isSilent = false;
      let isUp = false;
      const restarted = world.restart().then(() => (isUp = true));
      await pass(4_900, () => isUp);
      expect(isUp).toBe(false);
      await world.clock.advance(200);
      await restarted;
      await world.settled();
      expect((await world.service().statistics()).pullRequests).toBe(1);
    } finally {
      answer.resolve(undefined);
      await world.close();
    }
  });
});

describe('other signals', () => {
  it('SIGHUP and SIGUSR2 are logged, SIGUSR1 opens no debugger, and all end nothing; SIGQUIT ends in order', async () => {
    const { running, address } = await startDaemon();
    for (const [number, signal] of (['SIGHUP', 'SIGUSR2', 'SIGUSR1'] as const).entries()) {
      running.child.kill(signal);
      for (let look = 0; look < 20; look++) expect((await fetch(`${address}/readyz`)).status).toBe(200);
      expect(await post(address, number + 1)).toBe(202);
    }
    const { code, stderr } = await running.end('SIGQUIT');
    expect(code).toBe(0);
    expect(stderr).toMatch(/"signal":"SIGHUP","msg":"the configuration is being reloaded/);
    expect(stderr).toMatch(/"signal":"SIGUSR2","msg":"the signal is ignored/);
    expect(stderr).not.toContain('Debugger');
  });
});

describe('a start that cannot be', () => {
  it('for a database that is damaged ends with 78 and the remedy each time; moved away, it is rebuilt', async () => {
    const world = await createWorld();
    const deliver = (number: number) => world.deliver('pull_request', pullEvent({ number }), { id: `${number}` });
    try {
      for (let number = 1; number <= 10; number++) expect(await deliver(number)).toBe(202);
      await world.settled();
      const { received } = await world.requests();
      await world.restart({ meanwhile: expectDamageReported });
      for (const number of [1, 10, 11]) expect(await deliver(number)).toBe(202);
      await world.settled();
      expect((await world.service().statistics()).pullRequests).toBe(11);
      // Two reads, and one write: what it had recorded before is there, and is not written again.
      expect((await world.requests()).received).toBe(received + 3);
    } finally {
      await world.close();
    }
    // Process managers read 78 as a configuration error.
    expect(readFileSync(join(TOP, 'config/deploy/worksync.service'), 'utf8')).toMatch(
      /^RestartPreventExitStatus=.*\b78\b/m,
    );
  });

  /** Damages the database, tries to start with it, and moves it away. */
  async function expectDamageReported(damaged: string): Promise<void> {
    const file = join(damaged, 'worksync.db');
    const bytes = readFileSync(file);
    const behindItsFirstPages = 16_384;
    for (const from of [0, behindItsFirstPages]) {
      writeFileSync(file, Buffer.from(bytes).fill(0xa5, from));
      for (let start = 0; start < 2; start++) {
        const { code, stderr } = await command('run', ...flags(damaged));
        expect(code).toBe(78);
        expect(stderr).toContain('code:   database_corrupt');
        expect(stderr).toContain(`${file}: `);
        expect(stderr).toContain('put the file back or restore a backup, and start it again');
      }
    }
    renameSync(file, `${file}.damaged`);
  }
});

/**
 * Modelled: SQLite refuses to take another page, in the middle of whatever transaction needs it, as it does when the
 * file system has no block left. Not modelled: a file system that fails other files too.
 */
it('a full disk under the whole daemon: refused before any acknowledgement, nothing sent unrecorded, resumed by itself', async () => {
  const world: World = await createWorld();
  try {
    await world.settled();
    const { query } = world.installation();
    const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(query);
    await sql`pragma max_page_count = ${sql.lit(rows[0]!.page_count + 40)}`.execute(query);
    const numbers = Array.from({ length: 20 }, (_, index) => index + 1);
    const deliver = async (number: number) => {
      // Nothing that packing makes small.
      const payload = pullEvent({ number, body: randomBytes(7_500).toString('hex') });
      return world.deliver('pull_request', payload, { id: `delivery-${number}` });
    };
    const first: number[] = [];
    for (const number of numbers) first.push(await deliver(number));
    expect(first).toContain(202);
    expect(first).toContain(503);
    const end = world.clock.elapsed() + 120_000;
    await world.until(() => world.clock.elapsed() >= end);
    const sent = (await world.requests()).received;
    const ledger = await query.selectFrom('ledger').selectAll().execute();
    expect(ledger.length).toBeGreaterThanOrEqual(sent);

    await sql`pragma max_page_count = 1000000`.execute(query);
    await world.settled();
    const acknowledged = numbers.filter((_, index) => first[index] === 202);
    const held = async () => {
      const { pullRequests } = (await world.people.listPullRequests({ query: { limit: 100 } }, {})).body;
      return pullRequests.map(({ identifier }) => Number(identifier)).toSorted((left, right) => left - right);
    };
    expect(await held()).toEqual(acknowledged);
    for (const number of numbers) expect(await deliver(number)).toBe(202);
    await world.settled();
    expect(await held()).toEqual(numbers);
    // Two reads, and one write for each: what was answered while the disk was full was not sent again.
    expect((await world.requests()).received).toBe(2 + numbers.length);
    expect((await world.partition().status()).changes.byState.held).toBe(0);
  } finally {
    await world.close();
  }
});

it('what all these processes printed holds no secret', () => {
  const text = outputs.join('\n');
  expect(outputs.length).toBeGreaterThan(5);
  expect(text).toContain('the daemon runs');
  const printed = [...secrets].filter((secret) => text.includes(secret));
  expect(printed).toEqual([]);
  // Two credentials for each test, a token for each daemon, and the webhook secret.
  expect(secrets.size).toBeGreaterThan(9);
});
