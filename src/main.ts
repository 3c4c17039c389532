#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { enableCompileCache } from 'node:module';

// Otherwise Node opens its debugger to every user of this machine who can reach its port.
process.on('SIGUSR1', () => undefined);

const project = `${import.meta.dirname}/..`;

// What is imported from here on is kept stripped of its types and compiled, beside the packages: nobody else writes
// there. Where we cannot either, it is done without. (`npm start` does it by a variable, so that this file is kept too, and
// what strips types, 16 MB of memory, is never loaded.)
enableCompileCache(`${project}/node_modules/.cache/worksync`);
const { main } = await import('./cli/program.ts');
const { newScrubber } = await import('./cli/process-scrubber.ts');
const { outliveReaders } = await import('./cli/closed-output.ts');

outliveReaders();

const { version } = JSON.parse(readFileSync(`${project}/package.json`, 'utf8')) as { version: string };
const exit = await main(process.argv, version, newScrubber());
if (exit !== undefined) process.exit(exit);
