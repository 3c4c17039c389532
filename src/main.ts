#!/usr/bin/env node
import { CODES } from './model/errors/codes.ts';
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
  // Otherwise Node opens its debugger to every user of this machine who can reach its port.
  process.on('SIGUSR1', () => undefined);

  // Caches later imports compiled and without types, beside the packages: nobody else writes
  // there. Where we cannot either, it is done without. (`npm start` does it by a variable, so that this file is kept too, and
  // what strips types, 16 MB of memory, is never loaded.)
  const { enableCompileCache } = await import('node:module');
  enableCompileCache(`${project}/node_modules/.cache/worksync`);
  const { main } = await import('./cli/program.ts');
  const { newScrubber } = await import('./cli/process-scrubber.ts');
  const { programVersion } = await import('./platform/lib/program-folder.ts');
  const { endDespiteReads, endProcess, endWithReaders } = await import('./cli/ending.ts');

  endWithReaders();
  endDespiteReads();
  const exit = await main(process.argv, programVersion(), newScrubber());
  if (exit !== undefined) await endProcess(exit);
}
