import { describe, expect, it } from 'vitest';
import { expectRefused, failure } from './general.ts';
import { ask, type Reply, type Target, unique } from './target.ts';

const MB = 1_000_000;
/** Not text: every byte value, some of them no UTF-8. */
const BYTES = Uint8Array.from({ length: 1_000 }, (_, at) => at % 256);

export function describeFiles(held: { readonly it: Target }): void {
  const request = (fields: object = {}, prefix = '') =>
    ask(held.it, 'POST', `${prefix}/files/upload-url`, {
      body: { filename: 'picture.png', contentType: 'image/png', size: BYTES.length, ...fields },
    });
  const ticket = async (fields: object = {}) => {
    const reply = await request(fields);
    expect(reply.status).toBe(201);
    return reply.body;
  };
  const uploaded = async (fields: object = {}) => {
    const given = await ticket(fields);
    expect((await put(given)).status).toBe(204);
    return given;
  };
  const download = (assetUrl: string, headers: Record<string, string> = {}) =>
    fetch(assetUrl, { headers: { authorization: `Bearer ${held.it.token}`, ...headers } });

  describe.each(['', '/workspaces/current'])('W12, W50 POST %s/files/upload-url', (prefix) => {
    it('W50, W51 201 with the signed address, the asset address, method, headers and time', async () => {
      const before = Date.now();
      const reply = await request({}, prefix);
      expect(reply.status).toBe(201);
      expect(reply.body).toEqual({
        uploadUrl: expect.stringMatching(/^https?:\/\//),
        assetUrl: expect.stringMatching(/^https?:\/\//),
        method: 'PUT',
        headers: { 'content-type': 'image/png' },
        expiresAt: expect.stringMatching(/Z$/),
      });
      const minutesAfter = (time: number) => (Date.parse(reply.body.expiresAt) - time) / 60_000;
      expect([minutesAfter(before) > 14, minutesAfter(Date.now()) < 16]).toEqual([true, true]);
    });
  });

  it.each<object>([
    ...[undefined, '', '../../etc/passwd', 'C:\\x.png', 'a\r\nSet-Cookie: x', '\ud83d.png'].map((filename) => ({
      filename,
    })),
    ...['application/pdf', 'text/html', 'imagery/png', 'image/png; x=y', 'image/png\r\nx: y'].map((contentType) => ({
      contentType,
    })),
    ...[0, -1, 1.5, '5', undefined].map((size) => ({ size })),
  ])('W51 400 for %o', async (fields) => {
    await expectRefused(request(fields), 400);
  });

  it.each([
    ['image/png', 10 * MB],
    ['video/mp4', 100 * MB],
  ])('W51 the limit for %s is %i bytes; 413 over it', async (contentType, limit) => {
    expect((await request({ contentType, size: limit })).status).toBe(201);
    await expectRefused(request({ contentType, size: limit + 1 }), 413);
  });

  it('W50, W51 the flow: request, upload without a bearer, read with the bearer', async () => {
    const { assetUrl } = await uploaded();
    const response = await download(assetUrl);
    expect(response.status).toBe(200);
    expect(new Uint8Array(await response.arrayBuffer())).toEqual(BYTES);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'image/png',
      'content-length': '1000',
      'x-content-type-options': 'nosniff',
      'content-disposition': "inline; filename*=UTF-8''picture.png",
    });
  });

  it('W51 the asset address needs the normal bearer, and is 404 before the bytes have come', async () => {
    const [{ assetUrl }, waiting] = [await uploaded(), await ticket()];
    const without = await fetch(assetUrl);
    expect([without.status, await without.json()]).toMatchObject([401, failure(401, 'unauthorized').body]);
    const byKey = await fetch(assetUrl, { headers: { authorization: `Bearer ${held.it.key}` } });
    expect([byKey.status, (await byKey.arrayBuffer()).byteLength]).toEqual([200, BYTES.length]);
    const early = await download(waiting.assetUrl);
    expect([early.status, await early.json()]).toMatchObject([404, failure(404, 'not_found').body]);
  });

  it('W51 used once: of ten concurrent uploads one is taken, then 403, and the first bytes stay', async () => {
    const given = await ticket();
    const replies = await Promise.all(Array.from({ length: 10 }, () => put(given)));
    expect(replies.filter(({ status }) => status === 204)).toHaveLength(1);
    expect(replies.filter(({ status }) => status === 403)).toHaveLength(9);
    await expectRefused(put(given, new Uint8Array(BYTES.length)), 403);
    expect(new Uint8Array(await (await download(given.assetUrl)).arrayBuffer())).toEqual(BYTES);
  });

  it('W51 403 for an address that was changed anywhere', async () => {
    const [given, other] = [await ticket(), await ticket()];
    const url = new URL(given.uploadUrl);
    const foreign = new URL(other.uploadUrl);
    const changes: URL[] = [new URL(url.pathname, url), new URL(foreign.pathname + url.search, url)];
    for (const name of url.searchParams.keys()) {
      const value = url.searchParams.get(name)!;
      const other = `${value.slice(0, -1)}${value.endsWith('A') ? 'E' : 'A'}`;
      for (const changed of ['', `${value}0`, value.slice(1), other]) {
        const one = new URL(url);
        one.searchParams.set(name, changed);
        changes.push(one);
      }
      const twice = new URL(url);
      twice.searchParams.append(name, value);
      changes.push(twice);
    }
    for (const { href } of changes) await expectRefused(put({ ...given, uploadUrl: href }), 403);
    expect((await put(given)).status).toBe(204);
  });

  it.each([
    ['another type', 400, { 'content-type': 'image/jpeg' }, BYTES],
    ['a byte too few', 400, undefined, BYTES.slice(1)],
    ['a byte too many', 413, undefined, Uint8Array.of(...BYTES, 0)],
  ])('W51 refuses %s with %i, and the address can still be used', async (_what, status, headers, bytes) => {
    const given = await ticket();
    const errorCode = status === 413 ? 'payload_too_large' : 'validation_failed';
    expect(await put({ ...given, ...(headers && { headers }) }, bytes)).toMatchObject(failure(status, errorCode));
    expect((await download(given.assetUrl)).status).toBe(404);
    expect((await put(given)).status).toBe(204);
  });

  it.each([
    ['too many', 413, [BYTES, BYTES]],
    ['far too many', 413, Array.from({ length: 50 }, () => new Uint8Array(65_536))],
  ])('W51 the exact size holds without Content-Length too: %s', async (_what, status, pieces) => {
    const given = await ticket();
    const reply = await put(given, ReadableStream.from(pieces as Uint8Array<ArrayBuffer>[]));
    expect([reply.status, reply.body.code]).toEqual([status, status]);
    expect((await put(given, ReadableStream.from([BYTES.slice(0, 10), BYTES.slice(10)]))).status).toBe(204);
    expect(new Uint8Array(await (await download(given.assetUrl)).arrayBuffer())).toEqual(BYTES);
  });

  it.each([
    ['image/svg+xml', true],
    ['image/png', false],
  ])('W51 what may hold scripts is served in a sandbox: %s %s', async (contentType, sandboxed) => {
    const { headers } = await download((await uploaded({ contentType })).assetUrl);
    expect(headers.get('content-type')).toBe(contentType);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')?.includes('sandbox') ?? false).toBe(sandboxed);
  });

  it('W51 a file name comes back encoded, and changes no header', async () => {
    const filename = `it's "quoted"; (a) *${unique('ü')}😀.png`;
    const { headers } = await download((await uploaded({ filename })).assetUrl);
    const disposition = headers.get('content-disposition')!;
    expect(disposition).toMatch(/^inline; filename\*=UTF-8''[A-Za-z0-9%._~!-]+$/);
    expect(decodeURIComponent(disposition.split("''")[1]!)).toBe(filename);
  });
}

/** Sends bytes as the ticket says: no bearer, no version. */
async function put(
  { uploadUrl, headers }: { uploadUrl: string; headers: Record<string, string> },
  bytes: Uint8Array<ArrayBuffer> | ReadableStream = BYTES,
): Promise<Pick<Reply, 'status' | 'body'>> {
  const response = await fetch(uploadUrl, { method: 'PUT', headers, body: bytes, duplex: 'half' } as RequestInit);
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
}
