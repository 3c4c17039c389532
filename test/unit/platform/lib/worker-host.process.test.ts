import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folderOfTest } from '../../../support/harness/folder.ts';

const ROOT = join(import.meta.dirname, '../../../..');

it('a thread may write no more than the permission model lets the process write', () => {
  const folder = folderOfTest('permission');
  const target = join(folder, 'written');
  const thread = join(folder, 'thread.mjs');
  const main = join(folder, 'main.mjs');
  writeFileSync(
    thread,
    `import { writeFileSync } from 'node:fs';
     import { parentPort } from 'node:worker_threads';
     parentPort.postMessage('ready');
     parentPort.on('message', (path) => {
       try { writeFileSync(path, ''); parentPort.postMessage('written'); }
       catch (error) { parentPort.postMessage(error.code); }
     });`,
  );
  writeFileSync(
    main,
    `import { createWorkerHost } from ${JSON.stringify(join(ROOT, 'src/platform/lib/worker-host.ts'))};
     import { systemClock } from ${JSON.stringify(join(ROOT, 'src/platform/lib/clock.ts'))};
     const program = new URL('thread.mjs', import.meta.url);
     const host = createWorkerHost({ program, clock: systemClock(), memory: 64 });
     console.log(await host.run(${JSON.stringify(target)}, { cpu: 60_000, wall: 60_000 }));
     await host.close();`,
  );
  const flags = ['--permission', '--allow-worker', '--allow-fs-read=*', '--disable-warning=PERM0006'];
  const answer = execFileSync(process.execPath, [...flags, main], { encoding: 'utf8' }).trim();
  expect(answer).toBe('ERR_ACCESS_DENIED');
  expect(existsSync(target)).toBe(false);
});
