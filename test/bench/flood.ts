import { createHmac, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startNginx, WITHOUT_NGINX } from '../support/fakes/nginx.ts';
import { startWorkspaceService } from '../support/fakes/workspace-service.ts';
import type { Bench } from './bench.ts';
import { countDeliveries, WEBHOOK_PATH } from './daemon.ts';
import { largeBody, pullRequestBodies } from './deliveries.ts';
import { deliver, headOf, open } from './load.ts';
import { figure, type Measured } from './report.ts';
import { longestOf, runWatched, type Watched } from './watched.ts';

/**
 * What strangers can do to the whole daemon, in a process of its own as in production.
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
  const folder = mkdtempSync(join(tmpdir(), 'worksync-bench-flood-'));
  const service = await startWorkspaceService();
  try {
    return await runWatched({ folder, url: service.url, apiKey: service.apiKey }, measure);
  } finally {
    await service.close();
    rmSync(folder, { recursive: true, force: true });
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
    most = Math.max(most, residentBytes(pid) / MEGABYTE);
    await pause(250);
  }
  for (const socket of sockets) socket.destroy();
  return figure({ name: 'flood.memory', unit: 'MB', better: 'lower', aim: 256 }, [most]);
}

function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) * 1_024;
}

const FORGED = `sha256=${'0'.repeat(64)}`;

async function block({ folder, port, turnsSince }: Watched): Promise<Measured> {
  const small = pullRequestBodies(20);
  for (const [at, body] of small.entries()) await deliver({ port, path: WEBHOOK_PATH }, body, `warm-${at}`);
  // The first one also starts the thread and compiles; what it costs counts all the same.
  const longest: number[] = [];
  for (let round = 0; round < 5; round++) {
    const begin = Date.now();
    await deliver({ port, path: WEBHOOK_PATH }, largeBody(25 * MEGABYTE, 1_000 + round), `large-${round}`);
    await untilApplied(folder, small.length + round + 1);
    await pause(100);
    longest.push(longestOf(turnsSince(begin)));
  }
  return figure({ name: 'flood.block', unit: 'ms', better: 'lower', aim: 50, note: 'CPU of the main thread' }, longest);
}

async function untilApplied(folder: string, count: number): Promise<void> {
  const applied = () => countDeliveries(folder, "connection = 'github' and state = 'applied'");
  while (applied() < count) await pause(20);
}

const IDLE = 2_000;
const FORGERS = 20;
const GOOD = 200;

/** @param port where senders connect: the daemon's own, or a proxy's */
async function good({ port: own }: Pick<Watched, 'port'>, name: string, port: number): Promise<Measured> {
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
  const waits: number[] = [];
  let refused = 0;
  for (const [at, body] of bodies.entries()) {
    try {
      waits.push(await deliver({ port, path: WEBHOOK_PATH }, body, `good-${at}`));
    } catch {
      refused++;
    }
    await pause(25);
  }
  forging.abort();
  const forgeries = (await Promise.all(forgers)).reduce((sum, sent) => sum + sent, 0);
  for (const socket of idle) socket.destroy();
  const sorted = waits.toSorted((left, right) => left - right);
  // One that was refused waited too long.
  const p99 = refused > GOOD / 100 ? Number.POSITIVE_INFINITY : (sorted[Math.floor(sorted.length * 0.99) - 1] ?? 0);
  const note = `p99 of ${GOOD}, ${refused} refused, beside ${forgeries} forgeries`;
  return figure({ name, unit: 'ms', better: 'lower', aim: 250, note }, [p99]);
}

/** Sends forgeries of 21 KiB, each when the one before was answered, on connections that are opened anew as they end. */
async function forge(port: number, signal: AbortSignal): Promise<number> {
  const body = randomBytes(21_504);
  let sent = 0;
  while (!signal.aborted) {
    const socket = await open(port).catch(() => undefined);
    if (!socket) continue;
    sent += await forgeOn(socket, () => {
      if (signal.aborted) return undefined;
      const signature = `sha256=${createHmac('sha256', 'a guess').update(String(sent)).digest('hex')}`;
      return [headOf({ port, path: WEBHOOK_PATH }, { id: `forged-${sent}`, signature, length: body.length }), body];
    });
  }
  return sent;
}

/** As many as this connection takes. */
function forgeOn(socket: Socket, next: () => readonly [Buffer, Buffer] | undefined): Promise<number> {
  return new Promise((resolve) => {
    let sent = 0;
    const send = () => {
      const request = next();
      if (!request) return socket.destroy();
      sent++;
      socket.write(request[0]);
      return socket.write(request[1]);
    };
    socket.on('data', send).on('error', () => undefined);
    socket.on('close', () => resolve(sent));
    send();
  });
}

async function goodBehindNginx(daemon: Watched): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-bench-nginx-'));
  writeFileSync(join(folder, 'empty'), '');
  const nginx = await startNginx(folder, `location / { proxy_pass http://127.0.0.1:${daemon.port}; }`);
  try {
    return await good(daemon, 'flood.good.nginx', Number(new URL(nginx.address).port));
  } finally {
    await nginx.running.end('SIGTERM');
    rmSync(folder, { recursive: true, force: true });
  }
}
