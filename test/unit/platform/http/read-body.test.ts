import { expect, it, onTestFinished } from 'vitest';
import { createServer, listen } from '../../../../src/platform/http/server.ts';

it('gives the memory of each piece back as soon as it is copied: garbage of this size waits long for its collection', async () => {
  const server = createServer({ bodyLimit: 8_000_000 });
  onTestFinished(() => server.close());
  const pieces: Buffer[] = [];
  server.addHook('preParsing', (_request, _reply, payload, done) => {
    payload.on('data', (piece: Buffer) => void pieces.push(piece));
    done(null, payload);
  });
  let isSame = false;
  const sent = Buffer.from(Array.from({ length: 4_000_000 }, (_, at) => at % 251));
  server.post('/', async ({ body }) => {
    isSame = sent.equals(body as Buffer);
    return '';
  });
  const url = await listen(server, { host: '127.0.0.1', port: 0 });
  const headers = { 'content-type': 'application/octet-stream' };
  expect((await fetch(url, { method: 'POST', headers, body: sent })).status).toBe(200);
  expect(isSame).toBe(true);
  expect(pieces.length).toBeGreaterThan(10);
  expect(pieces.reduce((sum, piece) => sum + piece.buffer.byteLength, 0)).toBe(0);
});
