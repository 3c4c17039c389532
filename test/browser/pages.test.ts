import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import axe from 'axe-core';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { openReplicas } from '../support/postgres/replicas.ts';
import { createBusyWorld } from '../support/rows/busy-world.ts';
import { launchChromium } from './chromium.ts';

/** Every page in a real browser, light and dark, wide and narrow, of workspaces in every state. */

/** Pictures of all of them, to look at; git ignores the folder. */
const PICTURES = join(import.meta.dirname, 'pictures');

const GITHUB = { connector: 'github', repositories: ['acme/app'], webhookSecrets: WEBHOOK_SECRET, poll: 'off' };

/** Workspaces of the scene with many: three pages of the list. What 2 000 cost, `npm run bench -- --deep pages` says. */
const MANY = 120;

type Scene = Pick<World, 'daemon' | 'close'>;

const SCENES: Readonly<Record<string, () => Promise<Scene>>> = {
  empty: () => createWorld({ config: { connections: { github: GITHUB } } }),
  busy: () => createBusyWorld(),
  async broken() {
    const world = await createWorld({ config: { connections: { github: GITHUB } } });
    world.configure('fine', { connections: { github: GITHUB } });
    world.configure('lost', { connections: { github: { ...GITHUB, repositories: 'nowhere' } } });
    world.configure('test', { connections: { github: { ...GITHUB, unknown: 1 } } });
    await world.reload();
    return world;
  },
  async many() {
    const world = await createBusyWorld();
    for (let at = 1; at < MANY; at++)
      world.configure(`team-${String(at).padStart(4, '0')}`, { connections: { github: GITHUB } });
    await world.reload();
    return world;
  },
  /** The second is a replica with another configuration, and the third is gone. */
  async shared() {
    const replicas = await openReplicas({ workspaces: ['first', 'second', 'third'], tokens: [] });
    const one = await replicas.join();
    await replicas.join({ config: { rules: { triage: [{ when: {}, create: 'bug' }] } } });
    const gone = await replicas.join();
    const spread = async () => {
      const { shared } = await one.daemon.status();
      expect(shared?.replicas.map(({ holds }) => holds?.length)).toEqual([1, 1, 1]);
    };
    await vi.waitFor(spread, { timeout: 60_000, interval: 20 });
    await gone.stop();
    return { daemon: () => one.daemon, close: () => replicas.close() };
  },
};

const BELOW = ['', '/problems', '/changes', '/deliveries', '/item', '/backfills', '/rules', '/configuration', '/audit'];

function pagesOf(scene: string): readonly string[] {
  const own = BELOW.map((path) => `/workspaces/test${path}`);
  if (scene === 'busy')
    return [
      ...own,
      ...[
        '/problems?preview=creations',
        '/deliveries?preview=replay',
        '/delivery?id=12',
        '/item?name=acme/app%231',
      ].map((path) => `/workspaces/test${path}`),
      ...['/workspaces/none', '/help/', '/help/reference'],
    ];
  if (scene === 'broken') return [...own, '/', '/workspaces/lost', '/workspaces/fine'];
  if (scene === 'shared')
    return ['/', '/replicas', ...['first', 'second', 'third'].map((name) => `/workspaces/${name}`)];
  return scene === 'many' ? ['/', '/?search=team-0&at=1', '/?search=nothing'] : own;
}

/** Each theme and each width once: no style of one depends on the other. */
const VIEWS = {
  'light-wide': { colorScheme: 'light', size: { width: 1280, height: 900 } },
  'dark-narrow': { colorScheme: 'dark', size: { width: 390, height: 844 } },
} as const;

interface Finding {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

async function findingsOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<{ violations: Finding[] }>(
    'axe.run(document, { resultTypes: ["violations"] })',
  );
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary ?? ''}`);
}

let browser: Browser;
beforeAll(async () => {
  mkdirSync(PICTURES, { recursive: true });
  browser = await launchChromium();
});
afterAll(() => browser?.close());

interface Opened {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Console messages, violations of the policy, and requests to other hosts. */
  readonly complaints: string[];
}

async function open(origin: string, options: BrowserContextOptions): Promise<Opened> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => complaints.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(origin)) complaints.push(`request: ${request.url()}`);
  });
  return { context, page, complaints };
}

async function logIn(
  world: Scene,
  options: BrowserContextOptions = {},
): Promise<BrowserContextOptions['storageState']> {
  const { context, page } = await open(world.daemon().adminAddress, options);
  await page.goto(await world.daemon().loginLink());
  await page.getByRole('button', { name: 'Log in' }).click();
  const state = await context.storageState();
  await context.close();
  return state;
}

describe.each(Object.keys(SCENES))('a workspace that is %s', (scene) => {
  let world: Scene;
  let origin: string;
  let storageState: BrowserContextOptions['storageState'];
  beforeAll(async () => {
    world = await (SCENES[scene] as () => Promise<Scene>)();
    origin = world.daemon().adminAddress;
    storageState = await logIn(world);
  });
  afterAll(() => world?.close());

  it.each(pagesOf(scene))('%s has no fault that axe finds, keeps to the window, and asks nobody else', async (path) => {
    const { context, page, complaints } = await open(origin, { storageState });
    const answer = await page.goto(origin + path);
    const isMissing = (answer?.status() ?? 0) >= 400;
    for (const [view, { colorScheme, size }] of Object.entries(VIEWS)) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize(size);
      const name = `${scene}${path.replace(/[^\w]+/g, '-')}-${view}`;
      await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
      expect([view, await findingsOf(page)]).toEqual([view, []]);
      const [content, shown] = await page.evaluate<number[]>('[document.documentElement.scrollWidth, innerWidth]');
      expect(content).toBeLessThanOrEqual(shown ?? 0);
    }
    expect(complaints.filter((each) => !(isMissing && each.includes('404')))).toEqual([]);
    await context.close();
  });
});

describe('by keyboard alone', () => {
  it('a person finds what needs approval, looks at it, and releases it', async () => {
    const world = await createBusyWorld();
    const origin = world.daemon().adminAddress;
    const { context, page, complaints } = await open(origin, { storageState: await logIn(world) });
    await page.goto(`${origin}/workspaces/test`);
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content');
    for (const id of ['nav-problems', 'preview-creations', 'release-creations']) {
      await tabTo(page, id);
      const outline = await page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle');
      expect([id, outline]).toEqual([id, 'solid']);
      const loaded = page.waitForEvent('load');
      await page.keyboard.press('Enter');
      await loaded;
    }
    await tabTo(page, 'undo-1');
    const { held } = (await world.partition().status()).changes.byState;
    expect(held).toBeGreaterThan(0);
    await world.clock.advance(11_000);
    expect((await world.partition().status()).changes.byState.held).toBe(0);
    expect(complaints).toEqual([]);
    await context.close();
    await world.close();
  });
});

async function tabTo(page: Page, id: string): Promise<void> {
  for (let presses = 0; presses < 60; presses++) {
    if ((await page.evaluate<string>('document.activeElement.id')) === id) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`the focus never came to ${id}`);
}

describe('a page that stays open', () => {
  it('listens only while somebody can see it, and asks again where it was refused', async () => {
    const world = await createBusyWorld();
    const origin = world.daemon().adminAddress;
    const { context, page } = await open(origin, { storageState: await logIn(world) });
    await page.clock.install();
    const streams: string[] = [];
    page.on('request', (request) => {
      if (request.url().includes('/live/')) streams.push(request.url());
    });
    const ended: string[] = [];
    page.on('requestfailed', (request) => ended.push(request.url()));
    await page.goto(`${origin}/workspaces/test`);
    await page.getByText('Live', { exact: true }).waitFor();
    expect([streams.length, ended.length]).toEqual([1, 0]);
    const gone = page.waitForEvent('requestfailed');
    await page.evaluate(SEEN(false));
    await gone;
    const back = page.waitForRequest(/\/live\//);
    await page.evaluate(SEEN(true));
    await back;
    expect(streams).toHaveLength(2);
    await page.route(/\/live\//, (route) => route.fulfill({ status: 503 }));
    await page.evaluate(SEEN(false));
    const refused = page.waitForResponse(/\/live\//);
    await page.evaluate(SEEN(true));
    await refused;
    await page.unroute(/\/live\//);
    const again = page.waitForRequest(/\/live\//);
    await page.clock.fastForward(10_000);
    await again;
    await context.close();
    await world.close();
  });
});

/** As if the tab came to the front, or went from there. */
const SEEN = (isSeen: boolean) =>
  `Object.defineProperty(document, 'hidden', { value: ${!isSeen}, configurable: true });
   document.dispatchEvent(new Event('visibilitychange'));`;
