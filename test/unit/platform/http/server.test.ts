import { Readable } from 'node:stream';
import { expect, it, onTestFinished } from 'vitest';
import { createServer } from '../../../../src/platform/http/server.ts';

const PUBLIC = 'https://host.example/worksync/';

function open(publicUrl: string) {
  const server = createServer({ publicUrl });
  onTestFinished(() => server.close());
  const page =
    '<a href="/help/">a</a><script src="/assets/x.js"></script><form action="/login"><a href="https://x/">b</a> href=&quot;/c';
  server.get('/page', async (_request, reply) => reply.type('text/html; charset=utf-8').send(page));
  const event = `data: ${JSON.stringify('<a href="/w/a">a</a>')}\n\n`;
  server.get('/events', async (_request, reply) => reply.type('text/event-stream').send(Readable.from([event])));
  server.get('/', async (_request, reply) => reply.redirect('/page'));
  server.get('/away', async (_request, reply) => reply.redirect('https://elsewhere.example/'));
  server.post('/webhooks/a/b', async () => 'taken');
  const ask = (url: string, host = 'host.example', method: 'GET' | 'POST' = 'GET') =>
    server.inject({ url, method, headers: { host } });
  return { ask, page };
}

it.each(['/worksync/page', '/page'])(
  'pages below a path link below it, whether the proxy strips it or not: %s',
  async (url) => {
    const { ask } = open(PUBLIC);
    const { body } = await ask(url);
    expect(body).toBe(
      '<a href="/worksync/help/">a</a><script src="/worksync/assets/x.js"></script><form action="/worksync/login"><a href="https://x/">b</a> href=&quot;/c',
    );
  },
);

it('redirects below it, and nothing that leads elsewhere', async () => {
  const { ask } = open(PUBLIC);
  for (const url of ['/worksync', '/worksync/', '/worksync?a=1', '/'])
    expect((await ask(url)).headers.location).toBe('/worksync/page');
  expect((await ask('/worksync/away')).headers.location).toBe('https://elsewhere.example/');
  expect((await ask('/worksyncs/page')).statusCode).toBe(404);
});

it('leaves pages as they are under other hosts, and where the public address has no path', async () => {
  const own = open(PUBLIC);
  expect((await own.ask('/page', '127.0.0.1:8080')).body).toBe(own.page);
  const plain = open('https://host.example');
  expect((await plain.ask('/page')).body).toBe(plain.page);
});
