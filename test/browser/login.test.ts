import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listenLocally } from '../support/harness/listen.ts';
import { type Running, startWorksync, worksync } from '../support/harness/processes.ts';
import { launchChromium } from './chromium.ts';
import { lowContrasts } from './contrast.ts';

const scratch = mkdtempSync(join(tmpdir(), 'worksync-browser-'));
/** Where pictures are kept when someone wants to look at the page: SCREENSHOTS=<folder>. */
const pictures = process.env['SCREENSHOTS'];
let daemon: Running | undefined;
let browser: Browser | undefined;
let address = '';
let loggedIn: BrowserContextOptions['storageState'];

/** As a person gets it: by a command beside the daemon. */
async function newLink(...flags: string[]): Promise<string> {
  const { stdout, stderr, code } = await worksync(['login', '--data', scratch, ...flags]);
  expect([code, stderr]).toEqual([0, expect.stringContaining('It works once')]);
  return stdout.trim();
}

beforeAll(async () => {
  browser = await launchChromium();
  daemon = startWorksync(['run', '--data', scratch, '--port', '0']);
  const said = await daemon.says('Stop with Ctrl-C');
  address = /Status page: (\S+)/.exec(said)?.[1] ?? '';
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(await newLink());
  await page.getByRole('button', { name: 'Log in' }).click();
  loggedIn = await context.storageState();
  await context.close();
});

afterAll(async () => {
  await browser?.close();
  await daemon?.end();
  rmSync(scratch, { recursive: true, force: true });
});

interface Opened {
  readonly page: Page;
  /** Console messages, and requests to other hosts. */
  readonly complaints: readonly string[];
}

async function open(options: BrowserContextOptions = {}, at = address): Promise<Opened> {
  if (!browser) throw new Error('the browser has not started');
  const context = await browser.newContext({ storageState: loggedIn, ...options });
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
  await page.goto(at);
  return { page, complaints };
}

async function picture(page: Page, name: string): Promise<void> {
  if (pictures !== undefined) await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
}

const VIEWS = [
  ['light', { colorScheme: 'light', viewport: { width: 1280, height: 900 } }],
  ['dark', { colorScheme: 'dark', viewport: { width: 1280, height: 900 } }],
  ['narrow', { colorScheme: 'light', viewport: { width: 360, height: 740 } }],
] as const satisfies readonly (readonly [string, BrowserContextOptions])[];

const NOBODY = { storageState: { cookies: [], origins: [] } } satisfies BrowserContextOptions;

describe.each(VIEWS)('logging in, %s', (name, options) => {
  it('by a link, once', async () => {
    const link = await newLink();
    const { page, complaints } = await open({ ...options, ...NOBODY }, link);
    await picture(page, `login-link-${name}`);
    expect(await page.evaluate(lowContrasts)).toEqual([]);
    expect(await page.title()).toBe('Log in – worksync');
    // Looked at again, as programs do that check links, it still works.
    await page.reload();
    await page.getByRole('button', { name: 'Log in' }).press('Enter');
    await page.waitForURL(`${address}workspaces/demo`);
    expect(await page.locator('h1').allInnerTexts()).toEqual(['Overview']);
    const [cookie, ...others] = await page.context().cookies();
    expect(others).toEqual([]);
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
    expect(cookie?.name).toMatch(/^worksync-[0-9a-f]{12}$/);
    expect(await page.evaluate('document.cookie')).toBe('');
    await page.reload();
    expect(await page.locator('h1').allInnerTexts()).toEqual(['Overview']);
    expect(complaints).toEqual([]);
    await page.context().close();

    const late = await open({ ...options, ...NOBODY }, link);
    await late.page.getByRole('button', { name: 'Log in' }).click();
    await late.page.getByRole('alert').waitFor();
    await picture(late.page, `login-spent-${name}`);
    expect(await late.page.evaluate(lowContrasts)).toEqual([]);
    expect(await late.page.getByRole('alert').textContent()).toContain('This link was used already');
    await late.page.context().close();
  });

  it('with a token, and out again by a button', async () => {
    const { page } = await open({ ...options, ...NOBODY });
    await picture(page, `login-${name}`);
    expect(await page.evaluate(lowContrasts)).toEqual([]);
    const { token } = JSON.parse(readFileSync(join(scratch, 'daemon.json'), 'utf8')) as { token: string };
    await page.getByLabel('Token').fill('a wrong one');
    await page.getByRole('button', { name: 'Log in' }).click();
    expect(await page.getByRole('alert').textContent()).toContain('There is no such token');
    await page.getByLabel('Token').fill(token);
    await page.getByLabel('Token').press('Enter');
    await page.waitForURL(`${address}workspaces/demo`);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.waitForURL(`${address}login`);
    expect(await page.context().cookies()).toEqual([]);
    await page.goto(address);
    expect(await page.locator('h1').allInnerTexts()).toEqual(['Log in to worksync']);
    await page.context().close();
  });
});

describe('other pages in the same browser', () => {
  it('on another port of this machine do nothing with the session, though the cookie goes along', async () => {
    const got: string[] = [];
    const other = createServer((request, response) => {
      got.push(request.headers.cookie ?? '');
      response.setHeader('content-type', 'text/html').end('<title>other</title><iframe name="hidden"></iframe>');
    });
    const { port } = new URL(await listenLocally(other));
    const { page } = await open({}, `http://127.0.0.1:${port}/`);
    expect(got[0]).toMatch(/^worksync-/);
    const target = JSON.stringify(address);
    const answers = await page.evaluate<Record<string, unknown>>(`(async () => {
      const tried = {};
      const attempt = async (name, path, init) => {
        try { tried[name] = (await fetch(${target} + path, { credentials: 'include', ...init })).status; }
        catch (error) { tried[name] = error.name; }
      };
      await attempt('read', 'status.json');
      await attempt('json', 'admin/check', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
      // A request without a preflight arrives there, but its answer cannot be read here.
      await attempt('text', 'admin/check', { method: 'POST', body: '{}', mode: 'no-cors' });
      await attempt('form', 'logout', { method: 'POST', body: new URLSearchParams({ page: 'x' }), mode: 'no-cors' });
      return tried;
    })()`);
    expect(answers).toMatchObject({ read: 'TypeError', json: 'TypeError' });
    // By a form, which is the way that needs no script and no leave.
    await page.setContent(
      `<form method="post" action="${address}logout"><input name="page" value="x"><button>Press</button></form>`,
    );
    const [answer] = await Promise.all([
      page.waitForResponse((response) => response.url() === `${address}logout`),
      page.getByRole('button').click(),
    ]);
    expect(answer.status()).toBe(403);
    await page.goto(address);
    expect(await page.locator('h1').allInnerTexts()).toEqual(['Overview']);
    await page.context().close();
    await new Promise((resolve) => other.close(resolve));
  });
});
