import { hash } from 'node:crypto';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { createWorkspaceService, type Reached } from '../../../src/reference-service/service.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { NO_QUOTA, startWorkspaceService } from '../../support/fakes/workspace-service.ts';
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
    ['under a name that is allowed', named, { host: NAME }, `http://${NAME}`],
    ['without TLS, whatever a stranger says', undefined, { host: 'localhost', ...TLS }, 'http://localhost'],
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
