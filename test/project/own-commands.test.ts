import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { COMMAND_FILES } from '../../src/cli/commands.ts';
import { programOf } from '../../src/cli/program.ts';
import { COMMAND_NAMES, COMMANDS_WITHOUT_PLACE } from '../../src/platform/lib/own-command.ts';
import { createScrubber } from '../../src/platform/observe/scrubber.ts';

/**
 * Texts name our commands as `"worksync check"`, or in an example of help, and descriptions of options between backquotes:
 * `platform/lib/own-command.ts` shows people what they have to type where the program runs.
 */

const SRC = join(import.meta.dirname, '../../src');
const NAMES = COMMAND_FILES.flatMap(({ names }) => names);
/** A verb that is a command too, and what programs read. */
const RIGHT = /What worksync links, and what becomes a task|\bcommand: 'worksync /;

/** Lines of code, without comments. */
const lines = globSync('**/*.ts', { cwd: SRC }).flatMap((path) =>
  readFileSync(join(SRC, path), 'utf8')
    .split('\n')
    .map((line, index) => ({ place: `${path}:${index + 1}`, line }))
    .filter(({ line }) => !/^\s*(?:\/\*\*|\*|\/\/)/.test(line)),
);

describe('commands of ours in texts', () => {
  it('are written so that people see what works for them', () => {
    const bare = new RegExp(`(?<!["\`]|Example: |^ {9}|source <\\()\\bworksync (?:${NAMES.join('|')})\\b`);
    const found = lines.filter(({ line }) => bare.test(line) && !RIGHT.test(line));
    expect(found.map(({ place, line }) => `${place}: ${line.trim()}`)).toEqual([]);
  });

  it('exist', () => {
    expect(COMMAND_NAMES.split(' ').toSorted()).toEqual(NAMES.toSorted());
    const named = lines.flatMap(({ line }) =>
      Array.from(line.matchAll(/"worksync ([a-z][a-z-]*)/g), ([, name]) => name),
    );
    expect(named.length).toBeGreaterThan(40);
    // What samples are called.
    expect(named.filter((name = '') => name !== 'trial' && !NAMES.includes(name))).toEqual([]);
  });

  it('take the place of the data and the configuration, or are listed as taking none', async () => {
    const program = await programOf(undefined, { version: '1.0.0', scrubber: createScrubber() }, () => undefined);
    const ends = (command: Command): readonly Command[] =>
      command.commands.length === 0 ? [command] : command.commands.flatMap(ends);
    const takesPlace = ({ options }: Command) =>
      ['--data', '--config'].every((flag) => options.some(({ long }) => long === flag));
    const found = program.commands
      .filter((command) => !ends(command).every(takesPlace))
      .map((command) => command.name());
    expect(found.toSorted()).toEqual(COMMANDS_WITHOUT_PLACE.split(' ').toSorted());
  });
});
