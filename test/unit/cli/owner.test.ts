import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { askOwner } from '../../../src/cli/owner.ts';
import { daemonFile } from '../../../src/store/daemon-file.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { listenLocally } from '../../support/harness/listen.ts';

/** The data folder of a daemon that answers everything with this status. */
async function daemonAnswering(status: number): Promise<string> {
  const server = createServer((_, response) => response.writeHead(status).end('<html>a proxy</html>'));
  const address = await listenLocally(server);
  onTestFinished(() => void server.close());
  const data = folderOfTest('owner');
  writeFileSync(daemonFile(data), JSON.stringify({ address, token: 'token' }));
  return data;
}

it.each([200, 400, 422])(
  'reports an answer of the daemon with status %d that is not JSON as malformed',
  async (status) => {
    const asked = askOwner(await daemonAnswering(status), 'GET', '/status.json');
    await expect(asked).rejects.toMatchObject({ code: 'answer_malformed' });
  },
);

it('reports a workspace that the daemon does not have', async () => {
  const asked = askOwner(await daemonAnswering(404), 'POST', '/admin/workspaces/demo/questions/quota');
  await expect(asked).rejects.toMatchObject({ code: 'not_found', hint: expect.stringContaining('--config') });
});
