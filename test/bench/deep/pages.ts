import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { assetPath } from '../../../src/web/html-document.ts';
import { launchChromium } from '../../browser/chromium.ts';
import { type Bench, figure, type Measured, median } from '../bench.ts';
import { ask, costOf, longestOf, ownerOf, runWatched, usageOf, type Watched, WORKSPACE } from '../daemon.ts';
import { REPOSITORY } from '../deliveries.ts';
import { withFleet } from '../fleet.ts';
import { withBigInstallation } from './big-installation.ts';

const SIZE = { items: 1_000_000, deliveries: 500_000, tasks: 100_000, held: 50_000 };
const WORKSPACES = 2_000;

/** Milliseconds: what a daemon does after its start is over. */
const SETTLING = 3_000;
const PAINTS = 5;

const OWN = `/workspaces/${WORKSPACE}`;
const ITEM = encodeURIComponent(`${REPOSITORY}#500000`);
const BELOW = ['', '/problems', '/changes', '/deliveries', '/configuration'];
const PAGES: readonly string[] = [
  ...['', '/problems', '/problems?preview=removals', '/changes', '/deliveries', '/deliveries?state=quarantined'],
  ...['/deliveries?preview=replay', `/deliveries?about=${ITEM}`, '/delivery?id=400000', '/item', `/item?name=${ITEM}`],
  ...['/item?name=BUG-50000', '/backfills', '/rules', '/configuration', '/audit'],
].map((path) => OWN + path);
const PAGES_OF_MANY = ['/', '/?search=workspace-19&at=1', ...BELOW.map((path) => `/workspaces/workspace-7${path}`)];
const LISTS = 3;
/** Longer than an old list is shown, milliseconds: who asks then waits for a new one. */
const STALE = 16_000;
const ASSETS = (['page.css', 'page.js', 'icon.svg'] as const).map(assetPath);

/**
 * The cost of the worst of all pages: milliseconds of CPU for an answer, and in one turn; its first paint in a browser on this
 * machine; and all of them together, compressed, as kilobytes.
 */
export const pages: Bench = {
  figures: ['pages'],
  async run() {
    return [...(await withOneLarge()), ...(await withMany())];
  },
};

function withOneLarge(): Promise<Measured[]> {
  return withBigInstallation(SIZE, (big) =>
    runWatched(big, async (daemon) => [
      ...(await costs(daemon, PAGES, 'pages')),
      worst('pages.paint', 'ms', 300, await paints(daemon)),
      figure({ name: 'pages.size', unit: 'kB', aim: 100 }, [await size(daemon)]),
    ]),
  );
}

function withMany(): Promise<Measured[]> {
  return withFleet(WORKSPACES, (fleet) =>
    runWatched(fleet, async (daemon) => [
      ...(await costs(daemon, PAGES_OF_MANY, 'pages.many')),
      ...(await listCosts(daemon)),
    ]),
  );
}

async function costs(daemon: Watched, paths: readonly string[], name: string): Promise<Measured[]> {
  await pause(SETTLING);
  const used = new Map<string, number>();
  const turns = new Map<string, number>();
  for (const path of paths) {
    // The cached part of an answer is as old as it may be.
    await pause(SETTLING);
    used.set(path, (await costOf(daemon, path, [])) * 1_000);
    const begin = Date.now();
    await costOf(daemon, path, []);
    // The last turns may not be written down yet.
    await pause(50);
    turns.set(path, longestOf(daemon.turnsSince(begin)));
  }
  return [worst(name, 'ms CPU', 100, used), worst(`${name}.loop`, 'ms', 50, turns)];
}

/** The list where none is kept: all workspaces are read for it. */
async function listCosts(daemon: Watched): Promise<Measured[]> {
  const used: number[] = [];
  const turns: number[] = [];
  for (let list = 0; list < LISTS; list++) {
    await pause(STALE);
    const begin = Date.now();
    const before = usageOf(daemon.pid).cpu;
    await ask(daemon, '/', ['workspaces']);
    used.push(usageOf(daemon.pid).cpu - before);
    await pause(50);
    turns.push(longestOf(daemon.turnsSince(begin)));
  }
  const mean = (used.reduce((sum, each) => sum + each, 0) / LISTS) * 1_000;
  return [
    figure({ name: 'pages.many.list', unit: 'ms CPU', aim: 100 }, [mean]),
    figure({ name: 'pages.many.list.loop', unit: 'ms', aim: 50 }, turns),
  ];
}

function worst(name: string, unit: string, aim: number, values: ReadonlyMap<string, number>): Measured {
  const ordered = [...values].toSorted(([, one], [, other]) => other - one);
  const note = ordered
    .slice(0, 4)
    .map(([path, value]) => `${path} ${value.toFixed(0)}`)
    .join(', ');
  return figure({ name, unit, aim, note }, [ordered[0]?.[1] ?? Number.NaN]);
}

/** First contentful paint of each page, as the browser tells it. */
async function paints(daemon: Watched): Promise<ReadonlyMap<string, number>> {
  const { address, token } = ownerOf(daemon);
  const browser = await launchChromium();
  try {
    const context = await browser.newContext({ extraHTTPHeaders: { authorization: `Bearer ${token}` } });
    const page = await context.newPage();
    const found = new Map<string, number>();
    for (const path of PAGES) {
      const times: number[] = [];
      for (let paint = 0; paint < PAINTS; paint++) {
        await page.goto(address + path);
        times.push(await page.evaluate<number>(FIRST_PAINT));
      }
      found.set(path, median(times));
    }
    return found;
  } finally {
    await browser.close();
  }
}

const FIRST_PAINT = `new Promise((resolve) =>
  new PerformanceObserver((seen) => {
    const paint = seen.getEntriesByName('first-contentful-paint')[0];
    if (paint) resolve(paint.startTime);
  }).observe({ type: 'paint', buffered: true }))`;

async function size(daemon: Watched): Promise<number> {
  const { address, token } = ownerOf(daemon);
  let bytes = 0;
  for (const path of [...PAGES.filter((each) => !each.includes('?')), ...ASSETS]) {
    const answer = await fetch(address + path, { headers: { authorization: `Bearer ${token}` } });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    bytes += gzipSync(await answer.bytes()).length;
  }
  return bytes / 1_000;
}
