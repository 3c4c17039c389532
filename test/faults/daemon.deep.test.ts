import { once } from 'node:events';
import { createServer } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { listenLocally } from '../support/harness/listen.ts';
import { startOwnDaemon } from '../support/harness/own-daemon.ts';
import { useScratch } from '../support/harness/scratch.ts';

const scratch = useScratch('daemon-ends');
const startAgain = (flags: readonly string[]) => scratch.start(['run', ...flags, '--port', '0']).says('Status page');

it('SIGTERM while the workspace does not answer ends with 0, and the data is free for the next start', async () => {
  const silent = createServer();
  onTestFinished(() => {
    silent.close();
    silent.closeAllConnections();
  });
  const address = await listenLocally(silent);
  const reach = async (url: string) => url.replace(new URL(url).origin, address);
  const asked = once(silent, 'request');
  const { daemon, flags } = await startOwnDaemon(scratch, '', reach);
  await asked;
  expect(await daemon.end('SIGTERM')).toMatchObject({ code: 0 });
  expect(await startAgain(flags)).toContain('worksync runs.');
});
