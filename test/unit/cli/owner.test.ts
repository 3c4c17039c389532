import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { askOwner } from '../../../src/cli/owner.ts';
import { daemonFile } from '../../../src/store/daemon-file.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { listenLocally } from '../../support/harness/listen.ts';

it.each([200, 400, 422])(
  'reports an answer of the daemon with status %d that is not JSON as malformed',
  async (status) => {
    const server = createServer((_, response) => response.writeHead(status).end('<html>a proxy</html>'));
    const address = await listenLocally(server);
    onTestFinished(() => void server.close());
    const data = folderOfTest('owner');
    writeFileSync(daemonFile(data), JSON.stringify({ address, token: 'token' }));
    await expect(askOwner(data, 'GET', '/status.json')).rejects.toMatchObject({ code: 'answer_malformed' });
  },
);
