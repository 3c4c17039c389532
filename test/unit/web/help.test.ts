import { globSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { WARNINGS } from '../../../src/admin/verdict.ts';
import { CODES } from '../../../src/model/errors/codes.ts';
import { createServer } from '../../../src/platform/http/server.ts';
import { HELP_OF_REASONS, helpOf, helpRoutes } from '../../../src/web/help.ts';
import { renderMarkdown } from '../../../src/web/markdown.ts';
import { TOP } from '../../support/harness/processes.ts';

const server = createServer();
helpRoutes(server);

async function page(url: string): Promise<string> {
  const answer = await server.inject(url);
  expect([url, answer.statusCode]).toEqual([url, 200]);
  return answer.body;
}

function idsOf(body: string): string[] {
  return Array.from(body.matchAll(/ id="([^"]*)"/g), ([, id]) => id as string);
}

function linksOf(body: string): string[] {
  const links = Array.from(body.matchAll(/<a [^>]*href="([^"]*)"/g), ([, href]) => href as string);
  // Around each page: to its content, to the pages of the daemon, and to the table of contents.
  return links.filter((href) => !['#main', '/', '/help/'].includes(href));
}

describe('/help/', () => {
  it('has a page for each connector, and each document of the configuration', async () => {
    const bodies = await Promise.all(linksOf(await page('/help/')).map(page));
    const titles = bodies.map((body) => /<title>(\S+) – Help/.exec(body)?.[1]);
    const documents = globSync(['config/**/*.md', 'src/connectors/*/README.md'], { cwd: TOP });
    expect(documents.length).toBeGreaterThan(15);
    expect(documents.filter((file) => !titles.includes(file))).toEqual([]);
  });

  it('has an anchor for each error code, each problem, and the reasons for which a task is not moved', async () => {
    const codes = [...Object.keys(CODES), ...WARNINGS.map(({ code }) => code)];
    const addresses = [...codes.map(helpOf), HELP_OF_REASONS];
    const isThere = async (address: string) => {
      const [url = '', id = ''] = address.split('#');
      return idsOf(await page(url)).includes(id);
    };
    const found = await Promise.all(addresses.map(isThere));
    expect(addresses.filter((_address, index) => !found[index])).toEqual([]);
  });

  it('links to pages that it serves, and to anchors that they have, each anchor once', async () => {
    const addresses = linksOf(await page('/help/'));
    const pages = new Map(await Promise.all(addresses.map(async (url) => [url, await page(url)] as const)));
    const wrong = [...pages].flatMap(([url, body]) => {
      const ids = idsOf(body);
      const twice = ids.filter((id, at) => ids.indexOf(id) !== at);
      const dead = linksOf(body)
        .filter((href) => !href.startsWith('http'))
        .filter((href) => {
          const [path = '', id] = href.split('#');
          const target = pages.get(path === '' ? url : path);
          return target === undefined || (id !== undefined && !idsOf(target).includes(id));
        });
      return [...twice, ...dead].map((what) => `${url}: ${what}`);
    });
    expect(wrong).toEqual([]);
  });

  it('runs nothing and loads nothing', async () => {
    const { headers } = await server.inject('/help/operating');
    expect(headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'self'; script-src 'self'; /);
  });

  it.each(['/help/nothing', '/help/..%2fREADME', '/help/%2e%2e', '/help/constructor'])(
    'serves no other file: %s',
    async (url) => {
      expect((await server.inject(url)).statusCode).toBe(404);
    },
  );
});

describe('Markdown', () => {
  const made = (text: string) =>
    renderMarkdown(text, { linkOf: (href) => (href === 'ok' ? '/ok' : undefined) }).text.trim();

  it.each([
    ['<script>alert(1)</script>', '&lt;script&gt;alert(1)&lt;/script&gt;'],
    ['a <img src=x onerror=y> b', '<p>a &lt;img src=x onerror=y&gt; b</p>'],
    ['`<b>`', '<p><code>&lt;b&gt;</code></p>'],
    ['[words](ok)', '<p><a href="/ok" rel="noreferrer">words</a></p>'],
    ['[words](javascript:alert)', '<p>words</p>'],
    ['![words](https://example.com/x.png)', '<p>words</p>'],
    ['## A `b` & [c](ok)', '<h2 id="a-b--c">A <code>b</code> &amp; <a href="/ok" rel="noreferrer">c</a></h2>'],
  ])('%j', (text, expected) => {
    expect(made(text)).toBe(expected);
  });
});
