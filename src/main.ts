#!/usr/bin/env node
import { CODES } from './model/errors.ts';
import { isTooOld, OLDEST_NODE } from './platform/lib/oldest-node.ts';

const project = `${import.meta.dirname}/..`;

// Everything else is imported by `start`, because an older Node lacks exports that it names, and would end with a SyntaxError.
if (isTooOld(process.versions.node)) {
  const { exit, hint } = CODES.node_too_old;
  const message = `this is Node ${process.versions.node}, and worksync needs ${OLDEST_NODE} or later`;
  process.stderr.write(`worksync: ${message}\n  remedy: ${hint}\n  code:   node_too_old\n`);
  process.exitCode = exit;
} else await start();

async function start(): Promise<void> {
  // Without a listener, Node opens its debugger to every user of this machine who can reach its port.
  process.on('SIGUSR1', () => undefined);

  // Caches later imports, compiled and without types, in the folder of the packages, which nobody else writes. If this user cannot
  // write it either, nothing is cached. `npm start` sets a variable instead, so that this file is cached too, and the stripper of
  // types, 16 MB of memory, is never loaded.
  const { enableCompileCache } = await import('node:module');
  enableCompileCache(`${project}/node_modules/.cache/worksync`);
  const { main } = await import('./cli/program.ts');
  const { cleanErrorsWith } = await import('./model/errors.ts');
  const { programVersion } = await import('./platform/lib/own-program.ts');
  const { createScrubber } = await import('./platform/observe/scrubber.ts');
  const { endDespiteReads, endProcess, endWithReaders } = await import('./cli/ending.ts');

  endWithReaders();
  endDespiteReads();
  const scrubber = createScrubber();
  cleanErrorsWith(scrubber.scrub);
  const exit = await main(process.argv, programVersion(), scrubber);
  if (exit !== undefined) await endProcess(exit);
}
