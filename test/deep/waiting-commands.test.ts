import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { NO_QUOTA, startWorkspaceService, type TestService } from '../support/fakes/workspace-service.ts';
import { commandLine, complaintsOf } from '../support/harness/command-line.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { type Running, startWorksync, worksync } from '../support/harness/processes.ts';

/** No command waits without a word, or without an end. */

let scratch = '';
let service: TestService;
const running: Running[] = [];

beforeEach(async () => {
  scratch = folderOfTest('waiting');
  service = await startWorkspaceService({ quota: NO_QUOTA });
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(running.splice(0).map((process) => process.end('SIGKILL')));
  await service.close();
});

function configure({ apiKey = service.apiKey, quota }: { apiKey?: string; quota: string }): void {
  const hooks = 'connector: github, repositories: [acme/app], webhookSecrets: a-secret-of-sixteen-or-more, poll: off';
  const config = join(scratch, 'team.yaml');
  writeFileSync(
    config,
    `workspace:\n  url: ${service.url}\n  apiKey: ${apiKey}\nconnections:\n  hooks: { ${hooks} }\nquota: ${quota}\n`,
  );
  vi.stubEnv('WORKSYNC_CONFIG', config);
  vi.stubEnv('WORKSYNC_DATA', join(scratch, 'data'));
}

const environment = () => ({
  env: { WORKSYNC_CONFIG: join(scratch, 'team.yaml'), WORKSYNC_DATA: join(scratch, 'data') },
});

async function startDaemon(): Promise<void> {
  const daemon = startWorksync(['run', '--port', '0', '--log-level', 'silent'], environment());
  running.push(daemon);
  await daemon.says('Status page');
}

describe('while the key is refused', () => {
  const WRONG = 'wsk_nobody_gave_out_this_key_0123456789abcdef';

  it('a command beside the daemon ends at once with 77 and says why', async () => {
    configure({ apiKey: WRONG, quota: '{ requests: 100, burst: 50 }' });
    await startDaemon();
    // Whichever of the daemon's first read and this is refused first: from then on nothing is sent.
    await expect.poll(async () => (await worksync(['status'], environment())).stdout).toContain('unauthorized');
    const { code, stdout, stderr } = await worksync(['prs', 'list'], environment());
    expect({ code, stdout }).toEqual({ code: 77, stdout: '' });
    expect(stderr).toMatch(
      /^worksync: nothing is sent to the workspace for \d+ (min|s): the workspace refused the key/,
    );
    expect(stderr).toContain('code:   unauthorized');
  });

  it('a command without a daemon reads in the data folder that the key was refused, and a new key ends the pause', async () => {
    configure({ apiKey: WRONG, quota: '{ requests: 100, burst: 50 }' });
    expect(await commandLine('tasks', 'list')).toMatchObject({ code: 77, stderr: expect.stringContaining('401') });
    const again = await commandLine('tasks', 'list');
    expect(again).toMatchObject({ code: 77, stdout: '' });
    expect(again.stderr).toMatch(/nothing is sent to the workspace for \d+ s: the workspace refused the key/);
    expect(again.stderr).not.toContain('Waiting for');
    configure({ quota: '{ requests: 100, burst: 50 }' });
    const listed = await commandLine('tasks', 'list');
    expect([listed.code, complaintsOf(listed)]).toEqual([0, '']);
  });
});
