import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { stringify } from 'yaml';
import { lookInto, WEBHOOK_PATH, WORKSPACE } from '../bench/daemon.ts';
import { SECRET } from '../bench/deliveries.ts';
import { createChance } from '../bench/quota/references/chance.ts';
import { startWorkspaceService, type TestService } from '../support/fakes/workspace-service.ts';
import { freePort } from '../support/harness/listen.ts';
import { allRecords } from '../support/harness/people.ts';
import { postPull } from '../support/harness/post-pull.ts';
import type { Running } from '../support/harness/processes.ts';
import { useScratch } from '../support/harness/scratch.ts';
import type { PullSetting } from '../support/vendors/github-payloads.ts';

const PULLS = 40;
const TASKS = 2;
const KILLS = 30;
const RATE_PER_SECOND = 500;
const MOST_IN_FLIGHT = 100;
/** The daemon is killed after a random number of acknowledgements in this range, counted from its start. */
const ACKNOWLEDGED_PER_LIFE = [20, 800] as const;
/**
 * The workspace takes up to this long for each answer, so that kills meet requests in flight. With slower answers links change too
 * seldom: at 80 ms the test passes on code that ends with wrong links.
 */
const SLOWEST_ANSWER_MS = 20;
/** Each delivery is one second newer than the one before; all of them are in the past. */
const FIRST_EVENT = Date.now() - 12 * 3_600_000;
const SEED = Number(process.env['TEST_SEED'] ?? Math.floor(Math.random() * 1_000));

const scratch = useScratch('kills-under-load');

interface Edit {
  readonly id: string;
  readonly setting: Required<Pick<PullSetting, 'number' | 'title' | 'updated'>>;
}

/** Edits each pull request in turn. Each edit puts the key of another task into the title. */
function createEdits(keys: readonly string[]) {
  const lastTitles = new Map<number, { readonly title: string; readonly key: string }>();
  let edits = 0;
  return {
    lastTitles,
    next(): Edit {
      const number = 1 + (edits % PULLS);
      const round = Math.floor(edits / PULLS);
      const key = keys[(number + round) % keys.length] as string;
      const title = `${key}: edit ${round}`;
      lastTitles.set(number, { title, key });
      const updated = new Date(FIRST_EVENT + edits * 1_000).toISOString();
      return { id: `edit-${edits++}`, setting: { number, title, updated } };
    },
  };
}

/** Sends at a steady rate, whether or not a daemon listens. Deliveries without an acknowledgement are sent again first. */
function startSender(port: number, next: () => Edit) {
  const url = `http://127.0.0.1:${port}${WEBHOOK_PATH}`;
  const unacknowledged: Edit[] = [];
  let acknowledged = 0;
  let inFlight = 0;
  let isEnding = false;
  const send = async (edit: Edit) => {
    inFlight++;
    const { id, setting } = edit;
    if ((await postPull(url, SECRET, setting.number, setting, id)) === 202) acknowledged++;
    else unacknowledged.push(edit);
    inFlight--;
  };
  const run = async () => {
    for (let last = performance.now(), due = 0; !isEnding || inFlight + unacknowledged.length > 0; await pause(5)) {
      const now = performance.now();
      due = Math.min(due + ((now - last) * RATE_PER_SECOND) / 1_000, MOST_IN_FLIGHT - inFlight);
      last = now;
      for (; due >= 1; due--) {
        const edit = unacknowledged.shift() ?? (isEnding ? undefined : next());
        if (edit) void send(edit);
      }
    }
  };
  const running = run();
  return {
    acknowledged: () => acknowledged,
    async acknowledges(wanted: number, { child }: Running): Promise<void> {
      while (acknowledged < wanted) {
        if (child.exitCode !== null) throw new Error(`the daemon ended with ${child.exitCode}`);
        await pause(1);
      }
    },
    async end(): Promise<void> {
      isEnding = true;
      await running;
    },
  };
}

async function startService(): Promise<TestService> {
  const chance = createChance(SEED + 1);
  const service = await startWorkspaceService({
    quota: { requests: 1_000_000, window: 1_000, burst: 1_000_000, burstWindow: 1_000 },
    faults: {
      before: () => pause(chance.between(0, SLOWEST_ANSWER_MS / 2)),
      after: () => pause(chance.between(0, SLOWEST_ANSWER_MS / 2)),
    },
  });
  onTestFinished(() => service.close());
  return service;
}

function writeConfiguration({ url, apiKey }: TestService): string {
  const file = join(scratch.folder, `${WORKSPACE}.yaml`);
  const github = { connector: 'github', repositories: ['acme/app'], webhookSecrets: SECRET, poll: 'off' };
  // Nothing delays a write: neither the quota nor the debounce nor the guard.
  const quota = { requests: 1_000_000, burst: 1_000_000, share: 1, visibility: '1s', window: '1s', burstWindow: '1s' };
  const guard = { creations: 'off', removals: 'off', repairs: 'off' };
  writeFileSync(file, stringify({ workspace: { url, apiKey }, quota, guard, connections: { github } }));
  return file;
}

const count = (rows: string) => lookInto(scratch.folder, `select count(*) from ${rows}`);

it(`leaves each pull request with the link of its last title after ${KILLS} kills under load (seed ${SEED})`, async () => {
  const service = await startService();
  const people = service.client(service.oauthToken);
  const tasks: { readonly taskId: string; readonly key: string }[] = [];
  for (let number = 1; number <= TASKS; number++)
    tasks.push((await people.createBug({ body: { title: `Task ${number}` } }, {})).body);
  const port = await freePort();
  const flags = ['--config', writeConfiguration(service), '--data', join(scratch.folder, 'data')];
  const startDaemon = async () => {
    const daemon = scratch.start(['run', ...flags, '--port', String(port)]);
    await daemon.says('Status page');
    return daemon;
  };
  const chance = createChance(SEED);
  const { next, lastTitles } = createEdits(tasks.map(({ key }) => key));
  const sender = startSender(port, next);

  const met = { requestsInFlight: 0, answersBehindWebhooks: 0 };
  let uptimeMs = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const daemon = await startDaemon();
    const before = sender.acknowledged();
    await sender.acknowledges(before + 1, daemon);
    const began = performance.now();
    await sender.acknowledges(before + chance.whole(...ACKNOWLEDGED_PER_LIFE), daemon);
    uptimeMs += performance.now() - began;
    await daemon.end('SIGKILL');
    if (count("outbox where state = 'sending'") > 0) met.requestsInFlight++;
    if (count("inbox where state = 'pending' and source = 'answer'") > 0) met.answersBehindWebhooks++;
  }
  const perSecond = Math.round(sender.acknowledged() / (uptimeMs / 1_000));
  await startDaemon();
  await sender.end();
  while (count("inbox where state = 'pending'") + count("outbox where state != 'held'") > 0) await pause(100);

  const links: string[] = [];
  for (const { taskId, key } of tasks) {
    const { workItems } = (await people.listWorkItems({ taskId }, {})).body;
    links.push(...workItems.map(({ url }) => `${url} ${key}`));
  }
  const records = (await allRecords(people)).map(({ identifier, title }) => `${identifier} ${title}`);
  const pulls = [...lastTitles].map(([number, last]) => ({ number, ...last }));
  const run = `seed ${SEED}, ${perSecond} acknowledged deliveries per second`;
  expect({
    ...{ run, records, links: links.toSorted() },
    changes: count('outbox'),
    linksOfPersons: count("entities where kind = 'link' and hand in ('removed', 'manual')"),
    deliveries: count("inbox where source = 'webhook'"),
    quarantined: count("inbox where state = 'quarantined'"),
  }).toEqual({
    run,
    records: pulls.map(({ number, title }) => `${number} ${title}`),
    links: pulls.map(({ number, key }) => `https://github.com/acme/app/pull/${number} ${key}`).toSorted(),
    changes: 0,
    linksOfPersons: 0,
    deliveries: sender.acknowledged(),
    quarantined: 0,
  });
  // Without these conditions the kills would have tested nothing.
  expect(met.requestsInFlight).toBeGreaterThan(KILLS / 6);
  expect(met.answersBehindWebhooks).toBeGreaterThan(KILLS / 2);
});
