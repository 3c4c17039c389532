import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { completeStatus } from '../../src/admin/status/status.ts';
import { describeExplainedItem } from '../../src/cli/items/explained.ts';
import { describeStatus } from '../../src/cli/status/status.ts';
import { describeBuild } from '../../src/model/build.ts';
import { programVersion } from '../../src/platform/lib/own-program.ts';
import { acquireDataFolder, type DataFolder } from '../../src/store/installation/installation.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { listenLocally } from '../support/harness/listen.ts';

/** Commands beside a daemon of the previous build: `rows/previous-build/` has what it says. */

const RECORDED = readFileSync(join(import.meta.dirname, '../support/rows/previous-build/status.json'), 'utf8');
const data = join(folderOfFile('other-version'), 'data');
/** The version of the replica whose answers the daemon forwards. */
let forwarded: string | undefined;
const server = createServer((request, response) => {
  if (forwarded !== undefined) response.setHeader('x-worksync-version', forwarded);
  response.end(request.url === '/status.json' ? RECORDED : '{}');
});

let announced: DataFolder;
let address: string;
beforeAll(async () => {
  announced = acquireDataFolder(data);
  address = await listenLocally(server);
  announced.announce({ address, token: 'token' });
});
afterEach(() => {
  forwarded = undefined;
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

  it('status does without any one field of the answer', () => {
    const all = JSON.parse(RECORDED);
    const [workspace] = all.workspaces;
    const lacking = (object: object, key: string) => ({ ...object, [key]: undefined });
    const answers = [
      ...Object.keys(all).map((key) => lacking(all, key)),
      ...Object.keys(workspace).map((key) => ({ ...all, workspaces: [lacking(workspace, key)] })),
      { ...all, workspaces: [lacking(workspace, 'state'), { state: { kind: 'of-tomorrow' } }] },
    ];
    for (const answer of answers) expect(describeStatus(completeStatus(answer))).not.toMatch(/undefined|NaN/);
  });

  it.each(['quota', 'held', 'changes'])('%s names both builds if it cannot show the answer', async (command) => {
    const { code, stderr } = await commandLine(command, '--data', data);
    expect([code, stderr]).toEqual([1, expect.stringContaining('code:   answer_malformed')]);
    expect(stderr).toMatch(/the daemon is of an earlier version, this command \d+\.\d+\.\d+\+[\da-f]{8} \(schema \d+/);
  });

  it('an item without the fields of this build is shown without them', () => {
    const item = { item: 'acme/app#3', url: null, title: null, gone: false, links: [], others: [], triage: null };
    expect(describeExplainedItem({ ...item, writeBack: [] } as never)).toEqual(['acme/app#3', '  no links']);
  });
});

describe('beside a daemon of this build that forwards the answers of a replica', () => {
  beforeAll(() => {
    announced.release();
    announced = acquireDataFolder(data);
    announced.announce({ address, token: 'token', build: describeBuild(programVersion()) });
  });

  it('a command names the version of the replica if it cannot show the answer', async () => {
    forwarded = '0.0.9';
    const { code, stderr } = await commandLine('changes', '--data', data);
    expect([code, stderr]).toEqual([1, expect.stringContaining('code:   answer_malformed')]);
    expect(stderr).toMatch(/the daemon is 0\.0\.9, this command \d+\.\d+\.\d+\+[\da-f]{8} \(schema \d+/);
  });

  it.each([undefined, programVersion()])('a fault of the same version (%s) stays a fault', async (version) => {
    forwarded = version;
    const { stderr } = await commandLine('changes', '--data', data);
    expect(stderr).toContain('code:   internal');
  });
});
