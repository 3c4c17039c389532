import { createHmac, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startNginx, WITHOUT_NGINX } from '../support/fakes/nginx.ts';
import { startWorkspaceService } from '../support/fakes/workspace-service.ts';
import { type Bench, expectPremise, figure, inFolder, type Measured } from './bench.ts';
import { countDeliveries, longestOf, runWatched, until, usageOf, type Watched, WEBHOOK_PATH } from './daemon.ts';
import { largeBody, pullRequestBodies } from './deliveries.ts';
import { converse, deliver, headOf, open } from './load.ts';
import { quantile } from './quota/references/lag.ts';

/**
 * Measures the harm that strangers can do to a daemon in a process of its own, as in production.
 *
 * `flood.memory`: resident memory while 60 connections hold 24 MB each of a body that never ends. `flood.block`: the longest
 * CPU time of the main thread between two turns while valid bodies of 25 MB are taken in and over. `flood.good`: how long good
 * deliveries wait for their 2xx beside 2 000 idle connections and somebody who sends forgeries as fast as they are answered;
 * once more with all of them behind one nginx.
 */
export const flood: Bench = {
  figures: ['flood.memory', 'flood.block', 'flood.good', 'flood.good.nginx'],
  run: async () => [
    await withDaemon(memory),
    await withDaemon(block),
    await withDaemon((daemon) => good(daemon, 'flood.good', daemon.port)),
    ...(WITHOUT_NGINX === undefined ? [await withDaemon(goodBehindNginx)] : []),
  ],
};

async function withDaemon(measure: (daemon: Watched) => Promise<Measured>): Promise<Measured> {
  const service = await startWorkspaceService();
  try {
    const { url, apiKey } = service;
    return await inFolder((folder) => runWatched({ folder, url, apiKey }, measure));
  } finally {
    await service.close();
  }
}

const MEGABYTE = 1_000_000;

async function memory({ port, pid }: Watched): Promise<Measured> {
  const body = Buffer.alloc(24 * MEGABYTE, 'a');
  const sockets: Socket[] = [];
  for (let sender = 0; sender < 60; sender++) {
    const socket = await open(port);
    socket.on('error', () => undefined);
    const id = `half-${sender}`;
    socket.write(headOf({ port, path: WEBHOOK_PATH }, { id, signature: FORGED, length: 25 * MEGABYTE }));
    socket.write(body);
    sockets.push(socket);
  }
  let most = 0;
  for (let second = 0; second < 10; second += 0.25) {
    most = Math.max(most, usageOf(pid).resident / MEGABYTE);
    await pause(250);
  }
  const isTaken = sockets.some(({ readyState, writableLength }) => readyState === 'open' && writableLength === 0);
  expectPremise(isTaken, 'no connection holds a body that was taken in');
  for (const socket of sockets) socket.destroy();
  return figure({ name: 'flood.memory', unit: 'MB', aim: 256 }, [most]);
}

const FORGED = `sha256=${'0'.repeat(64)}`;

const APPLIED = "connection = 'github' and state = 'applied'";

async function block({ folder, port, turnsSince }: Watched): Promise<Measured> {
  const small = pullRequestBodies(20);
  for (const [at, body] of small.entries()) await deliver({ port, path: WEBHOOK_PATH }, body, `warm-${at}`);
  // The first one also starts the thread and compiles; what it costs counts all the same.
  const longest: number[] = [];
  for (let round = 0; round < 5; round++) {
    const begin = Date.now();
    await deliver({ port, path: WEBHOOK_PATH }, largeBody(25 * MEGABYTE, 1_000 + round), `large-${round}`);
    await until(() => countDeliveries(folder, APPLIED) === small.length + round + 1);
    await pause(100);
    longest.push(longestOf(turnsSince(begin)));
  }
  return figure({ name: 'flood.block', unit: 'ms', aim: 50, note: 'CPU of the main thread' }, longest);
}

const IDLE = 2_000;
const FORGERS = 20;
const GOOD = 200;

/** @param port where senders connect: the daemon's own, or a proxy's */
async function good({ port: own, folder }: Watched, name: string, port: number): Promise<Measured> {
  const bodies = pullRequestBodies(GOOD);
  for (const [at, body] of bodies.slice(0, 20).entries())
    await deliver({ port: own, path: WEBHOOK_PATH }, body, `warm-${at}`);
  const idle: Socket[] = [];
  for (let opened = 0; opened < IDLE; opened++) {
    const socket = await open(port);
    socket.on('error', () => undefined);
    idle.push(socket);
  }
  const forging = new AbortController();
  const forgers = Array.from({ length: FORGERS }, () => forge(port, forging.signal));
  await pause(2_000);
  // Each forger takes the place of one: the daemon accepts no more connections at once.
  const held = FORGERS + idle.filter(({ readyState }) => readyState === 'open').length;
  const waits: number[] = [];
  for (const [at, body] of bodies.entries()) {
    // A refused delivery counts as one that waited for ever.
    const wait = deliver({ port, path: WEBHOOK_PATH }, body, `good-${at}`).catch(() => Number.POSITIVE_INFINITY);
    waits.push(await wait);
    await pause(25);
  }
  forging.abort();
  const forgeries = (await Promise.all(forgers)).reduce((sum, sent) => sum + sent, 0);
  for (const socket of idle) socket.destroy();
  expectPremise(held >= IDLE, `${held} of ${IDLE} connections are open`);
  const taken = countDeliveries(folder, "delivery_key like 'forged-%'");
  expectPremise(forgeries > 0 && taken === 0, `${taken} of ${forgeries} forgeries are stored`);
  const refused = waits.filter((wait) => wait === Number.POSITIVE_INFINITY).length;
  const note = `p99 of ${GOOD}, ${refused} refused, beside ${forgeries} forgeries`;
  return figure({ name, unit: 'ms', aim: 250, note }, [quantile(waits, 0.99)]);
}

/** Sends forgeries of 21 KiB, each when the one before was answered, on connections that are opened anew as they end. */
async function forge(port: number, signal: AbortSignal): Promise<number> {
  const body = randomBytes(21_504);
  let sent = 0;
  while (!signal.aborted) {
    const socket = await open(port).catch(() => undefined);
    if (!socket) continue;
    const next = () => {
      if (signal.aborted) return undefined;
      const signature = `sha256=${createHmac('sha256', 'a guess').update(String(sent)).digest('hex')}`;
      const head = headOf({ port, path: WEBHOOK_PATH }, { id: `forged-${sent++}`, signature, length: body.length });
      return [head, body] as const;
    };
    await converse(socket, next, () => true).catch(() => undefined);
  }
  return sent;
}

function goodBehindNginx(daemon: Watched): Promise<Measured> {
  return inFolder(async (folder) => {
    writeFileSync(join(folder, 'empty'), '');
    const nginx = await startNginx(folder, `location / { proxy_pass http://127.0.0.1:${daemon.port}; }`);
    try {
      return await good(daemon, 'flood.good.nginx', Number(new URL(nginx.address).port));
    } finally {
      await nginx.running.end('SIGTERM');
    }
  });
}
