import { hash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
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
