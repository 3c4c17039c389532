import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Running, startWorksync } from '../support/processes.ts';
import { launchChromium } from './chromium.ts';
import { lowContrasts } from './contrast.ts';

/** The status page in a real browser, of a real daemon that has played the demo. */

const scratch = mkdtempSync(join(tmpdir(), 'worksync-browser-'));
/** Where pictures are kept when someone wants to look at the page: SCREENSHOTS=<folder>. */
const pictures = process.env['SCREENSHOTS'];
let daemon: Running | undefined;
let browser: Browser | undefined;
let address = '';

beforeAll(async () => {
  browser = await launchChromium();
  daemon = startWorksync(['run', '--data', scratch, '--port', '0']);
  const said = await daemon.says('Stop with Ctrl-C');
  address = /Status page: (\S+)/.exec(said)?.[1] ?? '';
});

afterAll(async () => {
  await browser?.close();
  await daemon?.end();
  rmSync(scratch, { recursive: true, force: true });
});

interface Opened {
  readonly page: Page;
  /** What the console said, and what the page asked of others. */
  readonly complaints: readonly string[];
}

async function open(options: BrowserContextOptions = {}): Promise<Opened> {
  if (!browser) throw new Error('the browser has not started');
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => complaints.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(address)) complaints.push(`request: ${request.url()}`);
  });
  page.on('response', (response) => {
    const isIcon = response.url().endsWith('/favicon.ico');
    if (response.status() >= 400 && !isIcon) complaints.push(`${response.status()}: ${response.url()}`);
  });
  await page.goto(address);
  return { page, complaints };
}

/** The element that has the focus, as it shows it. The tests are not compiled for a browser, hence the text. */
const FOCUS = `(() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  const { ariaLabel, textContent } = document.activeElement;
  return { name: ariaLabel ?? textContent, outline: outlineStyle + ' ' + outlineWidth };
})()`;

async function picture(page: Page, name: string): Promise<void> {
  if (pictures !== undefined) await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
}

const VIEWS = [
  ['light', { colorScheme: 'light', viewport: { width: 1280, height: 900 } }],
  ['dark', { colorScheme: 'dark', viewport: { width: 1280, height: 900 } }],
  ['narrow', { colorScheme: 'light', viewport: { width: 360, height: 740 } }],
] as const satisfies readonly (readonly [string, BrowserContextOptions])[];

describe.each(VIEWS)('the status page, %s', (name, options) => {
  it('shows what the demo did, and asks nobody else', async () => {
    const { page, complaints } = await open(options);
    await picture(page, name);
    expect(await page.title()).toMatch(/worksync/);
    expect(await page.locator('h1').allInnerTexts()).toEqual(['worksync']);
    expect(await page.locator('h2').allInnerTexts()).toEqual(['demo']);
    expect(await page.locator('h3').allInnerTexts()).toEqual(
      expect.arrayContaining(['Request quota', 'Deliveries', 'Changes to send', 'In step', 'Connections']),
    );
    const text = await page.locator('main').textContent();
    expect(text).toMatch(/9 of 200/);
    expect(text).toMatch(/pull requests\s*4/);
    expect(text).toMatch(/links\s*3/);
    expect(text).toContain('/webhooks/demo/github-demo');
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it('can be read: enough contrast, and nothing wider than the window but what scrolls by itself', async () => {
    const { page } = await open(options);
    expect(await page.evaluate(lowContrasts)).toEqual([]);
    const [content, view] = await page.evaluate<number[]>('[document.documentElement.scrollWidth, window.innerWidth]');
    expect(content).toBeLessThanOrEqual(view ?? 0);
    await page.context().close();
  });
});

describe('the status page', () => {
  it('can be worked by keyboard: what scrolls or leads on takes the focus, in order, and shows it', async () => {
    const { page } = await open({ viewport: { width: 360, height: 740 } });
    const expected = await page.locator('a[href], [tabindex="0"]').count();
    expect(expected).toBeGreaterThan(1);
    const seen: string[] = [];
    for (let at = 0; at < expected; at++) {
      await page.keyboard.press('Tab');
      const focus = await page.evaluate<{ name: string; outline: string }>(FOCUS);
      expect(focus.outline).not.toMatch(/^none|0px$/);
      seen.push(focus.name);
    }
    expect(new Set(seen).size).toBe(expected);
    await page.context().close();
  });

  it('names its language, its regions and its pictures', async () => {
    const { page } = await open();
    expect(await page.getAttribute('html', 'lang')).toBe('en');
    expect(await page.locator('main').count()).toBe(1);
    expect(await page.locator('svg:not([aria-label]), [role="region"]:not([aria-label])').count()).toBe(0);
    expect(await page.locator('th:not([scope])').count()).toBe(0);
    await page.context().close();
  });
});
