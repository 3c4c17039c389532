import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { signed } from '../support/fakes/notes.ts';
import { activeWith, inboxOf, openEndpoint, openTestStore } from '../support/harness/intake.ts';

const PATH = '/webhooks/main/notes';
const MEBIBYTE = 1024 * 1024;

/** A connection that writes this, and reads what comes back. */
function open(
  port: number,
  text: string,
  body = Buffer.alloc(0),
): Promise<{ socket: Socket; answer: Promise<string> }> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(text);
      socket.write(body);
      resolve({ socket, answer });
    });
    onTestFinished(() => void socket.destroy());
    let said = '';
    const answer = new Promise<string>((end) => {
      socket.on('data', (data) => (said += data.toString()));
      socket.on('error', () => undefined);
      socket.on('close', () => end(said));
    });
  });
}

const head = (length: number) =>
  `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;

const large = activeWith({ connector: { largestDelivery: 2 * MEBIBYTE } });

test.each([
  ['small', 60, ['x', 'y'.repeat(21_000), 'z'.repeat(200_000)]],
  ['large', 8, ['y'.repeat(2 * MEBIBYTE)]],
])(
  'half-sent bodies hold no more than the budget, and make room for others: %s [A12]',
  async (_name, senders, good) => {
    const store = await openTestStore();
    const endpoint = await openEndpoint(store, [large], { limits: { bytes: 8 * MEBIBYTE } });
    const half = Buffer.alloc(1.9 * MEBIBYTE, 'a');
    const sending = await Promise.all(
      Array.from({ length: senders }, () => open(endpoint.port, head(2 * MEBIBYTE), half)),
    );
    for (const [index, body] of good.entries()) {
      const answer = await endpoint.post(PATH, body, signed(body, `id-${index}`));
      expect(answer.status).toBe(202);
      expect(endpoint.held()).toBeLessThanOrEqual(8 * MEBIBYTE);
    }
    expect(await inboxOf(store)).toHaveLength(good.length);
    for (const { socket } of sending) socket.destroy();
    await expect.poll(() => endpoint.held()).toBe(0);
  },
);

test('a body is the same however small the pieces in which it came', async () => {
  const store = await openTestStore();
  const endpoint = await openEndpoint(store, [activeWith()]);
  const body = JSON.stringify({ text: 'ä'.repeat(40_000) });
  const bytes = Buffer.from(body);
  const headers = Object.entries(signed(body)).map(([name, value]) => `${name}: ${value}\r\n`);
  const { socket, answer } = await open(
    endpoint.port,
    `POST ${PATH} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n${headers.join('')}\r\n`,
  );
  for (let at = 0; at < bytes.length; at += 7) {
    const piece = bytes.subarray(at, at + 7);
    socket.write(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]));
  }
  socket.write('0\r\n\r\n');
  expect(await answer).toMatch(/^HTTP\/1\.1 202 /);
  expect((await inboxOf(store)).map(({ body: stored }) => stored)).toEqual([body]);
});

test.each([
  ['cut off', 'abc', 10],
  ['announced without end', '', Number.MAX_SAFE_INTEGER],
])('a body that is %s is refused', async (_name, text, length) => {
  const store = await openTestStore();
  const endpoint = await openEndpoint(store, [activeWith()]);
  const { socket, answer } = await open(endpoint.port, head(length), Buffer.from(text));
  socket.end();
  expect(await answer).toMatch(/^HTTP\/1\.1 4|^$/);
  expect(await inboxOf(store)).toEqual([]);
  await expect.poll(() => endpoint.held()).toBe(0);
});

test('idle connections lock nobody out: the oldest are given up', async () => {
  const endpoint = await openEndpoint(await openTestStore(), [activeWith()], { limits: { connections: 50 } });
  const idle = await Promise.all(
    Array.from({ length: 200 }, () => open(endpoint.port, 'GET / HTTP/1.1\r\nhost: a\r\n\r\n')),
  );
  for (let index = 0; index < 20; index++)
    expect((await endpoint.post(PATH, 'x', signed('x', `id-${index}`))).status).toBe(202);
  await expect.poll(() => idle.filter(({ socket }) => socket.closed).length).toBeGreaterThanOrEqual(150);
});

test('requests that never end lock nobody out either', async () => {
  const endpoint = await openEndpoint(await openTestStore(), [activeWith()], { limits: { connections: 50 } });
  await Promise.all(Array.from({ length: 100 }, () => open(endpoint.port, head(100), Buffer.from('{'))));
  for (let index = 0; index < 20; index++)
    expect((await endpoint.post(PATH, 'x', signed('x', `id-${index}`))).status).toBe(202);
});
