#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { main } from './cli/program.ts';
import { newScrubber } from './cli/session.ts';

const { version } = JSON.parse(readFileSync(`${import.meta.dirname}/../package.json`, 'utf8')) as { version: string };

enableCompileCache();
const exit = await main(process.argv, version, newScrubber());
if (exit !== undefined) process.exit(exit);
