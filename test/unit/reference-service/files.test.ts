import { createHash, hash } from 'node:crypto';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createWorkspaceService, type Reached } from '../../../src/reference-service/service.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { NO_QUOTA, startWorkspaceService } from '../../support/fakes/workspace-service.ts';
import { isDeep } from '../../support/harness/depth.ts';
import { folderOfTest } from '../../support/harness/folder.ts';

const BYTES = Buffer.from('the bytes of a picture');
const DIGEST = hash('sha256', BYTES, 'hex');
const PICTURE = { filename: 'a.png', contentType: 'image/png', size: BYTES.length };

type Running = Awaited<ReturnType<typeof start>>;

/** A service on a file of its own, which stays for the next start. */
async function start(file?: string, clock = createTravellingClock()) {
  const kept = file ?? temporaryFile();
  const running = await startWorkspaceService({ file: kept, clock, quota: NO_QUOTA });
  onTestFinished(() => running.close());
  return { ...running, clock, folder: `${kept}.files` };
}

const temporaryFile = () => join(folderOfTest('files'), 'service.db');

async function ticketOf(running: Running, file = PICTURE) {
  return (await running.client().createUploadUrl({ body: file }, {})).body;
}

const put = (url: string, bytes = BYTES) =>
  fetch(url, { method: 'PUT', headers: { 'content-type': 'image/png' }, body: new Uint8Array(bytes) });

/** Answers the asset address. */
async function upload(running: Running, file = PICTURE): Promise<string> {
  const { uploadUrl, assetUrl } = await ticketOf(running, file);
  expect((await put(uploadUrl)).status).toBe(204);
  return assetUrl;
}

/** The address of an asset holds the port, which another start changes. */
const download = (running: Running, assetUrl: string) =>
  fetch(new URL(new URL(assetUrl).pathname, running.url), { headers: { authorization: `Bearer ${running.apiKey}` } });

const stored = async ({ folder }: Running) => (await readdir(folder)).filter((name) => name !== 'signing.key');

it('files are named by their digest, equal ones are stored once, and only the owner may read them', async () => {
  const running = await start();
  for (const filename of ['one.png', 'other.png', DIGEST]) await upload(running, { ...PICTURE, filename });
  expect(await stored(running)).toEqual([DIGEST]);
  expect(await readFile(join(running.folder, DIGEST))).toEqual(BYTES);
  for (const name of ['', DIGEST, 'signing.key']) expect((await stat(join(running.folder, name))).mode & 0o077).toBe(0);
});

it('W51 an upload address is valid for 15 minutes and no longer', async () => {
  const running = await start();
  const [inTime, late] = [await ticketOf(running), await ticketOf(running)];
  expect(inTime.expiresAt).toBe(new Date(running.clock.now() + 900_000).toISOString());
  await running.clock.advance(899_999);
  expect((await put(inTime.uploadUrl)).status).toBe(204);
  await running.clock.advance(1);
  const refused = await put(late.uploadUrl);
  expect([refused.status, await refused.json()]).toEqual([
    403,
    { code: 403, message: expect.stringMatching(/./), errorCode: 'forbidden' },
  ]);
  // The next request forgets the row of the one that was never used; what was uploaded stays.
  await ticketOf(running);
  expect((await put(late.uploadUrl)).status).toBe(403);
  expect((await download(running, inTime.assetUrl)).status).toBe(200);
});

it('an upload address outlives a restart, and what was uploaded is there after it', async () => {
  const first = await start();
  const [uploaded, waiting] = [await upload(first), await ticketOf(first)];
  await first.close();
  const second = await start(first.file, first.clock);
  const { pathname, search } = new URL(waiting.uploadUrl);
  expect((await put(new URL(pathname + search, second.url).href)).status).toBe(204);
  for (const url of [uploaded, waiting.assetUrl]) expect((await download(second, url)).status).toBe(200);
});

it('a start removes the files that a crash left, and replaces a key file that was written in part', async () => {
  const first = await start();
  const uploaded = await upload(first);
  await first.close();
  const orphan = hash('sha256', 'orphan', 'hex');
  for (const name of [orphan, '00ff.part', 'signing.key']) await writeFile(join(first.folder, name), 'left');
  const second = await start(first.file, first.clock);
  expect(await stored(second)).toEqual([DIGEST]);
  expect((await download(second, uploaded)).status).toBe(200);
  expect((await put((await ticketOf(second)).uploadUrl)).status).toBe(204);
  expect(await readFile(join(second.folder, 'signing.key'))).toHaveLength(32);
});

it('an upload whose commit fails is not acknowledged, leaves the address usable, and its file is swept', async () => {
  const file = temporaryFile();
  const clock = createTravellingClock();
  let failing = false;
  const reached = (_kind: unknown, edge: string) => {
    if (failing && edge === 'before') throw new Error('disk on fire');
  };
  const open = async () => {
    const deps = { file, clock, random: systemRandom(), logger: silentLogger, quota: NO_QUOTA, steps: { reached } };
    const service = await createWorkspaceService(deps);
    onTestFinished(() => service.close());
    return { service, url: await service.listen({ host: '127.0.0.1', port: 0 }) };
  };
  const first = await open();
  const { apiKey } = await first.service.startCredentials();
  const asked = await fetch(`${first.url}/files/upload-url`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ filename: 'a.png', contentType: 'image/png', size: BYTES.length }),
  });
  const { uploadUrl } = (await asked.json()) as { uploadUrl: string };
  failing = true;
  expect((await put(uploadUrl)).status).toBe(500);
  failing = false;
  expect(await readdir(`${file}.files`)).toContain(DIGEST);
  await first.service.close();
  const second = await open();
  expect(await readdir(`${file}.files`)).not.toContain(DIGEST);
  const { pathname, search } = new URL(uploadUrl);
  expect((await put(new URL(pathname + search, second.url).href)).status).toBe(204);
});

it('a sender who goes away leaves nothing behind, and may try again', async () => {
  const running = await start();
  const { uploadUrl } = await ticketOf(running);
  await new Promise<void>((resolve) => {
    const headers = { 'content-type': 'image/png', 'content-length': BYTES.length };
    const sending = httpRequest(uploadUrl, { method: 'PUT', headers });
    sending.on('error', () => undefined);
    sending.on('close', resolve);
    sending.write(BYTES.subarray(0, 5), () => sending.destroy());
  });
  expect((await put(uploadUrl)).status).toBe(204);
  await expect.poll(() => stored(running)).toEqual([DIGEST]);
});

/** Megabytes of a video that are sent before the disk has to have them. */
const QUARTER = isDeep ? 25 : 4;

it(`a video of ${4 * QUARTER} MB goes to disk while it comes, and is given as it was`, async () => {
  const running = await start();
  const piece = Buffer.alloc(1_000_000, 7);
  const size = 4 * QUARTER * piece.length;
  const { uploadUrl, assetUrl } = await ticketOf(running, { ...PICTURE, contentType: 'video/mp4', size });
  const onDisk = async () => {
    const [part] = await stored(running);
    return part === undefined ? 0 : (await stat(join(running.folder, part))).size;
  };
  const pieces = async function* () {
    for (let quarter = 1; quarter <= 4; quarter++) {
      for (let sent = 0; sent < QUARTER; sent++) yield piece;
      // The rest is not sent before the disk has what was: nothing waits for the end of the body.
      await expect.poll(onDisk).toBe(quarter * QUARTER * piece.length);
    }
  };
  const headers = { 'content-type': 'video/mp4' };
  const sending = { method: 'PUT', headers, body: ReadableStream.from(pieces()), duplex: 'half' } as RequestInit;
  expect((await fetch(uploadUrl, sending)).status).toBe(204);
  const [digest, whole] = [createHash('sha256'), createHash('sha256')];
  for await (const one of (await download(running, assetUrl)).body!) digest.update(one);
  for (let sent = 0; sent < 4 * QUARTER; sent++) whole.update(piece);
  expect(digest.digest('hex')).toBe(whole.digest('hex'));
});

describe('addresses of files', () => {
  const TLS = { 'x-forwarded-proto': 'https' };
  /** Returns the beginning of the addresses for a client that sends these headers. */
  async function originFor(reached: Reached | undefined, headers: Record<string, string>) {
    const service = await createWorkspaceService({
      ...{ file: temporaryFile(), clock: createTravellingClock(), random: systemRandom() },
      ...{ logger: silentLogger, quota: NO_QUOTA, reached },
    });
    onTestFinished(() => service.close());
    const { port } = new URL(await service.listen({ host: '127.0.0.1', port: 0 }));
    const { apiKey } = await service.startCredentials();
    const options = { port, method: 'POST', path: '/api/v1/workspaces/current/files/upload-url' };
    const all = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...headers };
    const answer = await new Promise<string>((resolve) => {
      httpRequest({ ...options, headers: all }, (response) => resolve(text(response))).end(
        JSON.stringify({ filename: 'a.png', contentType: 'image/png', size: 7 }),
      );
    });
    const { uploadUrl, assetUrl } = JSON.parse(answer) as { uploadUrl: string; assetUrl: string };
    const origins = [uploadUrl, assetUrl].map((url) => url.split('/api/v1/')[0]?.replace(port, 'PORT'));
    expect(origins[0]).toBe(origins[1]);
    return origins[0];
  }

  const NAME = 'files.example.com';
  const named = { allowedHosts: [NAME] };
  const HERE = 'http://127.0.0.1:PORT';
  it.each<[where: string, reached: Reached | undefined, headers: Record<string, string>, origin: string]>([
    ['as the client addressed us', undefined, { host: 'localhost:4711' }, 'http://localhost:4711'],
    ['where we listen, for a name that is none of ours', undefined, { host: 'evil.example.org' }, HERE],
    ['where we listen, for no name at all', undefined, { host: 'a b@c' }, HERE],
    ['under a name that is allowed', named, { host: NAME }, `http://${NAME}`],
    ['without TLS, whatever a stranger says', undefined, { host: 'localhost', ...TLS }, 'http://localhost'],
    ['without a name that a stranger says', named, { host: 'localhost', 'x-forwarded-host': NAME }, 'http://localhost'],
    [
      'with TLS as a trusted proxy says',
      { ...named, trustedProxies: ['127.0.0.1'] },
      { host: NAME, ...TLS },
      `https://${NAME}`,
    ],
    [
      'with the public address',
      { publicUrl: `https://${NAME}/ws` },
      { host: 'evil.example.org' },
      `https://${NAME}/ws`,
    ],
  ])('begin %s', async (_name, reached, headers, origin) => {
    expect(await originFor(reached, headers)).toBe(origin);
  });
});
