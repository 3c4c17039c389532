import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { acquireDataFolder, type DataFolder } from '../../src/store/installation/installation.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { listenLocally } from '../support/harness/listen.ts';

/** Commands beside a daemon of the previous build: `rows/previous-build/` has what it says. */

const RECORDED = readFileSync(join(import.meta.dirname, '../support/rows/previous-build/status.json'), 'utf8');
const data = join(folderOfFile('other-version'), 'data');
const server = createServer(({ url }, response) => void response.end(url === '/status.json' ? RECORDED : '{}'));

let announced: DataFolder;
beforeAll(async () => {
  announced = acquireDataFolder(data);
  announced.announce({ address: await listenLocally(server), token: 'token' });
});
afterAll(() => {
  announced.release();
  server.close();
});

describe('beside a daemon of the previous build', () => {
  it('status shows what the daemon says', async () => {
    const { code, stdout } = await commandLine('status', '--data', data);
    expect(code).toBe(0);
    expect(stdout).toContain('worksync 0.1.0 (schema unknown, protocol unknown), ok, up for 9 s');
    expect(stdout).toContain('synced      4 pull requests, 3 links');
    expect(stdout).not.toMatch(/undefined|NaN/);
  });

  it('quota names both builds if it cannot show the answer', async () => {
    const { code, stderr } = await commandLine('quota', '--data', data);
    expect([code, stderr]).toEqual([1, expect.stringContaining('code:   answer_malformed')]);
    expect(stderr).toMatch(/the daemon is of an earlier version, this command \d+\.\d+\.\d+\+[\da-f]{8} \(schema \d+/);
  });
});
